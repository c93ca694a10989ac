// All exponentials come from the kernels' own exp, so that a choice near a border does not depend on libm.
#include "engine/sampler.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace quern {
namespace {

void check(const SamplingOptions& o, size_t n_vocab) {
  const auto in_range = [](const char* flag, double value, double low, double high) {
    if (!(value >= low && value <= high)) throw_error(ErrorKind::kUsage, "{} is {}; allowed is {} to {}", flag, value, low, high);
  };
  in_range("--temp", o.temperature, 0.0, 1000.0);
  in_range("--top-k", o.top_k, 0, 1e9);
  in_range("--top-p", o.top_p, 0.0, 1.0);
  in_range("--min-p", o.min_p, 0.0, 1.0);
  in_range("--repeat-penalty", o.repeat_penalty, 0.01, 100.0);
  in_range("--repeat-last-n", o.repeat_last_n, 0, 1e9);
  for (const auto& [id, bias] : o.logit_bias) {
    if (id < 0 || size_t(id) >= n_vocab) throw_error(ErrorKind::kUsage, "--logit-bias names token {}; the vocabulary has 0 to {}", id, n_vocab - 1);
    if (std::isnan(bias)) throw_error(ErrorKind::kUsage, "--logit-bias of token {} is not a number", id);
  }
}

}  // namespace

Sampler::Sampler(const SamplingOptions& options, size_t n_vocab, const kernels::VectorKernels& kernels)
    : options_(options), kernels_(kernels), rng_(options.seed) {
  check(options, n_vocab);
}

void Sampler::adjust(std::span<const float> logits, std::span<const TokenId> history) {
  adjusted_.assign(logits.begin(), logits.end());
  for (const auto& [id, bias] : options_.logit_bias) adjusted_[size_t(id)] += bias;
  if (options_.repeat_penalty == 1.0f) return;
  std::vector<TokenId> recent(history.end() - ptrdiff_t(std::min(history.size(), size_t(options_.repeat_last_n))), history.end());
  std::sort(recent.begin(), recent.end());
  recent.erase(std::unique(recent.begin(), recent.end()), recent.end());
  for (const TokenId id : recent) {
    float& logit = adjusted_[size_t(id)];
    logit = logit > 0.0f ? logit / options_.repeat_penalty : logit * options_.repeat_penalty;
  }
}

std::vector<Sampler::Candidate> Sampler::candidates(std::span<const float> logits, std::span<const TokenId> history) {
  adjust(logits, history);
  std::vector<Candidate> list(adjusted_.size());
  for (size_t i = 0; i < list.size(); ++i) list[i] = {TokenId(i), adjusted_[i]};
  const auto likelier = [](const Candidate& a, const Candidate& b) { return a.logit != b.logit ? a.logit > b.logit : a.id < b.id; };
  if (options_.top_k > 0 && size_t(options_.top_k) < list.size()) {
    std::nth_element(list.begin(), list.begin() + options_.top_k - 1, list.end(), likelier);
    list.resize(size_t(options_.top_k));
  }
  std::sort(list.begin(), list.end(), likelier);

  probabilities_.resize(list.size());
  for (size_t i = 0; i < list.size(); ++i) probabilities_[i] = list[i].logit;
  const float sum = kernels_.exp_sum(probabilities_.data(), list[0].logit, probabilities_.data(), list.size());
  size_t keep = list.size();
  if (options_.top_p < 1.0f) {
    double mass = 0;
    for (keep = 0; keep < list.size() && (keep == 0 || mass < double(options_.top_p) * sum); ++keep) mass += probabilities_[keep];
  }
  while (keep > 1 && probabilities_[keep - 1] < options_.min_p * probabilities_[0]) --keep;
  list.resize(keep);
  return list;
}

TokenId Sampler::sample(std::span<const float> logits, std::span<const TokenId> history) {
  if (options_.temperature == 0.0f) {
    adjust(logits, history);
    return TokenId(kernels_.argmax(adjusted_.data(), adjusted_.size()));
  }
  const std::vector<Candidate> list = candidates(logits, history);
  probabilities_.resize(list.size());
  for (size_t i = 0; i < list.size(); ++i) probabilities_[i] = (list[i].logit - list[0].logit) / options_.temperature;
  kernels_.exp_sum(probabilities_.data(), 0.0f, probabilities_.data(), list.size());
  double total = 0;
  for (size_t i = 0; i < list.size(); ++i) total += probabilities_[i];
  double target = rng_.uniform() * total;
  for (size_t i = 0; i < list.size(); ++i) {
    target -= probabilities_[i];
    if (target < 0) return list[i].id;
  }
  return list.back().id;
}

}  // namespace quern
