// Flags to sampling options.
#include "sampling_options.h"

#include <fmt/format.h>

#include <cstdio>
#include <random>

namespace quern::cli {
namespace {

std::vector<std::pair<TokenId, float>> parse_biases(const std::vector<std::string>& texts) {
  std::vector<std::pair<TokenId, float>> biases;
  for (const std::string& text : texts) {
    TokenId id = 0;
    float bias = 0;
    char end = 0;
    if (std::sscanf(text.c_str(), "%d=%f%c", &id, &bias, &end) != 2) throw Error(ErrorKind::kUsage, fmt::format("--logit-bias '{}': wanted is ID=BIAS, such as 7042=-100", text));
    biases.emplace_back(id, bias);
  }
  return biases;
}

}  // namespace

SamplingOptions SamplingFlags::resolved() const {
  SamplingOptions out = sampling;
  out.logit_bias = parse_biases(logit_bias);
  out.seed = seed ? *seed : std::random_device{}();
  return out;
}

void add_sampling_options(CLI::App& command, SamplingFlags& o) {
  command.add_option("--temp", o.sampling.temperature, "Temperature (default 0.8; 0: always the most likely token)");
  command.add_option("--top-k", o.sampling.top_k, "Keep the K most likely tokens (default 40; 0: off)");
  command.add_option("--top-p", o.sampling.top_p, "Keep the most likely tokens up to this mass (default 0.95; 1: off)");
  command.add_option("--min-p", o.sampling.min_p, "Drop tokens below this share of the best one (default 0.05; 0: off)");
  command.add_option("--repeat-penalty", o.sampling.repeat_penalty, "Weaken tokens seen lately (default 1: off)");
  command.add_option("--repeat-last-n", o.sampling.repeat_last_n, "How many tokens of prompt and answer count as lately (default 64)");
  command.add_option("--logit-bias", o.logit_bias, "ID=BIAS, added to a token's logit (may be given several times)")->expected(1)->take_all();
  command.add_option("--seed", o.seed, "Seed of the sampler (default: random, and shown)")->check([](const std::string& text) { return text.starts_with('-') ? fmt::format("'{}' is no seed; give a whole number from 0 on", text) : std::string(); });
}

}  // namespace quern::cli
