// `quern logits`: raw logits for given token ids, for tests and for people who compare engines.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "command.h"
#include "model_options.h"

namespace quern::cli {
namespace {

struct Options {
  ModelOptions model;
  std::string tokens, tokens_file, out;
  bool json = false;
};

std::vector<TokenId> token_ids(const nlohmann::json& json, const std::string& where) {
  const nlohmann::json& list = json.is_object() && json.contains("tokens") ? json["tokens"] : json;
  if (!list.is_array() || list.empty()) throw Error(ErrorKind::kUsage, where + ": wanted is a JSON list of token ids, or an object with such a list as \"tokens\"");
  std::vector<TokenId> ids;
  for (const auto& id : list) {
    if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() > INT32_MAX) throw Error(ErrorKind::kUsage, fmt::format("{}: {} is not a token id", where, id.dump()));
    ids.push_back(TokenId(id.get<int64_t>()));
  }
  return ids;
}

std::vector<TokenId> read_tokens(const Options& o) {
  if (!o.tokens.empty()) {
    const auto json = nlohmann::json::parse("[" + o.tokens + "]", nullptr, false);
    if (json.is_discarded()) throw Error(ErrorKind::kUsage, fmt::format("--tokens '{}': wanted are ids with commas between, such as 1,2,3", o.tokens));
    return token_ids(json, "--tokens");
  }
  std::ifstream in(o.tokens_file);
  if (!in) throw Error(ErrorKind::kUsage, fmt::format("--tokens-file: cannot open '{}'", o.tokens_file));
  const auto json = nlohmann::json::parse(in, nullptr, false);
  if (json.is_discarded()) throw Error(ErrorKind::kUsage, fmt::format("--tokens-file: '{}' is not JSON", o.tokens_file));
  return token_ids(json, o.tokens_file);
}

void write_floats(const std::string& path, const std::vector<float>& values) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(values.data()), std::streamsize(values.size() * sizeof(float)));
  file.close();
  if (!file) throw Error(ErrorKind::kRuntime, fmt::format("writing {} bytes to '{}' failed", values.size() * sizeof(float), path));
}

void run(const Options& o) {
  const std::vector<TokenId> tokens = read_tokens(o);
  const auto engine = o.model.load();
  const SessionOptions options = o.model.session(std::max<size_t>(tokens.size(), 1));
  check_context(o.model, options, *engine);
  const auto session = engine->new_session(options);
  const std::vector<float> logits = session->all_logits(tokens);
  if (!o.out.empty()) write_floats(o.out, logits);
  if (!o.json) return;
  const size_t n_vocab = engine->info().n_vocab;
  const float* last = logits.data() + (tokens.size() - 1) * n_vocab;
  std::vector<size_t> order(n_vocab);
  for (size_t i = 0; i < n_vocab; ++i) order[i] = i;
  const size_t n_top = std::min<size_t>(5, n_vocab);
  std::partial_sort(order.begin(), order.begin() + ptrdiff_t(n_top), order.end(), [&](size_t a, size_t b) { return last[a] != last[b] ? last[a] > last[b] : a < b; });
  nlohmann::ordered_json top = nlohmann::ordered_json::array();
  for (size_t i = 0; i < n_top; ++i) top.push_back({order[i], last[order[i]]});
  fmt::print("{}\n", nlohmann::ordered_json{{"shape", {tokens.size(), n_vocab}}, {"top", top}}.dump());
}

}  // namespace

void add_logits(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("logits", "Raw logits for given token ids");
  add_model_options(*command, o->model);
  add_cache_options(*command, o->model);
  auto* ids = command->add_option("--tokens", o->tokens, "Token ids with commas between: 1,2,3");
  command->add_option("--tokens-file", o->tokens_file, "A JSON file: a list of ids, or an object with \"tokens\"")->excludes(ids);
  command->add_option("--out", o->out, "File for float32 [n_tokens, n_vocab], little-endian");
  command->add_flag("--json", o->json, "Print the shape and the five best of the last position");
  command->callback([o] {
    if (o->tokens.empty() && o->tokens_file.empty()) throw Error(ErrorKind::kUsage, "give the token ids: --tokens 1,2,3 or --tokens-file F.json");
    if (o->out.empty() && !o->json) throw Error(ErrorKind::kUsage, "nothing to do: give --out FILE or --json");
    run(*o);
  });
}

}  // namespace quern::cli
