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

using Candidate = Sampler::Candidate;

bool likelier(const Candidate& a, const Candidate& b) { return a.logit != b.logit ? a.logit > b.logit : a.id < b.id; }

/// The k likeliest, likeliest first. A heap of k is passed by most of a vocabulary with one comparison each.
std::vector<Candidate> likeliest(std::span<const float> logits, size_t k) {
  std::vector<Candidate> heap;
  heap.reserve(k);
  for (size_t i = 0; i < logits.size(); ++i) {
    if (heap.size() == k) {
      if (!(logits[i] > heap.front().logit)) continue;  // of equals the lower id stays
      std::pop_heap(heap.begin(), heap.end(), likelier);
      heap.pop_back();
    }
    heap.push_back({TokenId(i), logits[i]});
    std::push_heap(heap.begin(), heap.end(), likelier);
  }
  std::sort(heap.begin(), heap.end(), likelier);
  return heap;
}

}  // namespace

Sampler::Sampler(const SamplingOptions& options, size_t n_vocab, const kernels::VectorKernels& kernels)
    : options_(options), kernels_(kernels), rng_(options.seed) {
  check(options, n_vocab);
}

std::span<const float> Sampler::adjusted(std::span<const float> logits, std::span<const TokenId> history) {
  if (options_.logit_bias.empty() && options_.repeat_penalty == 1.0f) return logits;
  adjusted_.assign(logits.begin(), logits.end());
  for (const auto& [id, bias] : options_.logit_bias) adjusted_[size_t(id)] += bias;
  if (options_.repeat_penalty == 1.0f) return adjusted_;
  std::vector<TokenId> recent(history.end() - ptrdiff_t(std::min(history.size(), size_t(options_.repeat_last_n))), history.end());
  std::sort(recent.begin(), recent.end());
  recent.erase(std::unique(recent.begin(), recent.end()), recent.end());
  for (const TokenId id : recent) {
    float& logit = adjusted_[size_t(id)];
    logit = logit > 0.0f ? logit / options_.repeat_penalty : logit * options_.repeat_penalty;
  }
  return adjusted_;
}

size_t Sampler::kept(size_t n, float sum) const {
  size_t keep = n;
  if (options_.top_p < 1.0f) {
    double mass = 0;
    for (keep = 0; keep < n && (keep == 0 || mass < double(options_.top_p) * sum); ++keep) mass += probabilities_[keep];
  }
  while (keep > 1 && probabilities_[keep - 1] < options_.min_p * probabilities_[0]) --keep;
  return keep;
}

std::vector<Sampler::Candidate> Sampler::candidates(std::span<const float> logits, std::span<const TokenId> history) {
  const std::span<const float> x = adjusted(logits, history);
  const size_t n = x.size();
  const bool limited = options_.top_k > 0 && size_t(options_.top_k) < n;
  float whole = 0.0f;  // the mass of all, where top-k does not limit it
  if (!limited) {
    probabilities_.resize(n);
    whole = kernels_.exp_sum(x.data(), kernels_.max(x.data(), n), probabilities_.data(), n);
  }
  // Without top-k, top-p and min-p rarely need more than some hundred of a large vocabulary: sort no more than they do.
  const bool truncated = options_.top_p < 1.0f || options_.min_p > 0.0f;
  for (size_t k = limited ? size_t(options_.top_k) : truncated ? std::min<size_t>(n, 512) : n;; k = std::min(n, 8 * k)) {
    std::vector<Candidate> list = likeliest(x, k);
    probabilities_.resize(list.size());
    for (size_t i = 0; i < list.size(); ++i) probabilities_[i] = list[i].logit;
    const float sum = kernels_.exp_sum(probabilities_.data(), list[0].logit, probabilities_.data(), list.size());
    const size_t keep = kept(list.size(), limited ? sum : whole);
    if (!limited && keep == k && k < n) continue;
    list.resize(keep);
    return list;
  }
}

TokenId Sampler::sample(std::span<const float> logits, std::span<const TokenId> history) {
  if (options_.temperature == 0.0f) {
    const std::span<const float> x = adjusted(logits, history);
    return TokenId(kernels_.argmax(x.data(), x.size()));
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
