// The truncations against the plain definition: everything sorted, then cut.
#include "engine/sampler.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "base/rng.h"
#include "kernels/kernels.h"

using namespace quern;

namespace {

std::vector<float> random_logits(size_t n, float spread, uint64_t seed) {
  Rng rng(seed);
  std::vector<float> x(n);
  for (float& v : x) v = std::round(rng.uniform(-spread, spread) * 64.0f) / 64.0f;  // coarse, so that there are ties
  return x;
}

/// What the options say, done the slow way.
std::vector<TokenId> expected(const std::vector<float>& logits, const SamplingOptions& o) {
  std::vector<TokenId> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](TokenId a, TokenId b) { return logits[size_t(a)] > logits[size_t(b)]; });
  if (o.top_k > 0 && size_t(o.top_k) < ids.size()) ids.resize(size_t(o.top_k));
  const auto p = [&](TokenId id) { return std::exp(double(logits[size_t(id)]) - double(logits[size_t(ids[0])])); };
  double total = 0, mass = 0;
  for (const TokenId id : ids) total += p(id);
  size_t keep = ids.size();
  if (o.top_p < 1.0f) {
    for (keep = 0; keep < ids.size() && (keep == 0 || mass < double(o.top_p) * total); ++keep) mass += p(ids[keep]);
  }
  while (keep > 1 && p(ids[keep - 1]) < double(o.min_p)) --keep;
  ids.resize(keep);
  return ids;
}

std::vector<TokenId> got(const std::vector<float>& logits, const SamplingOptions& options) {
  Sampler sampler(options, logits.size(), *kernels::active_kernels().vector);
  std::vector<TokenId> ids;
  for (const auto& candidate : sampler.candidates(logits, {})) ids.push_back(candidate.id);
  return ids;
}

}  // namespace

TEST_CASE("top-k, top-p and min-p keep what sorting everything would keep", "[sampler]") {
  struct Case {
    int k;
    float p, m;
  };
  const Case c = GENERATE(Case{40, 0.95f, 0.05f}, Case{1, 1.0f, 0.0f}, Case{0, 0.9f, 0.0f}, Case{0, 0.999f, 0.0f}, Case{0, 1.0f, 0.02f}, Case{0, 1.0f, 0.0f}, Case{5000, 0.5f, 0.0f}, Case{3000, 1.0f, 0.0f});
  for (const float spread : {0.25f, 3.0f, 20.0f}) {
    const std::vector<float> logits = random_logits(4999, spread, uint64_t(spread * 100));
    SamplingOptions options;
    options.top_k = c.k;
    options.top_p = c.p;
    options.min_p = c.m;
    CAPTURE(c.k, c.p, c.m, spread);
    const std::vector<TokenId> want = expected(logits, options), have = got(logits, options);
    // The mass is a float sum here and a double one there: the last token may differ where the mass meets top-p.
    REQUIRE(std::max(want.size(), have.size()) - std::min(want.size(), have.size()) <= 1);
    REQUIRE(std::equal(have.begin(), have.begin() + ptrdiff_t(std::min(want.size(), have.size())), want.begin()));
  }
}

TEST_CASE("temperature 0 takes the likeliest, ties to the lowest id, bias and penalty counted", "[sampler]") {
  SamplingOptions options;
  options.temperature = 0.0f;
  const std::vector<float> logits = {1.0f, 3.0f, 3.0f, 2.9f};
  const auto sample = [&](std::vector<TokenId> history = {}) { return Sampler(options, logits.size(), *kernels::active_kernels().vector).sample(logits, history); };
  CHECK(sample() == 1);
  options.logit_bias = {{0, 2.5f}};
  CHECK(sample() == 0);
  options.logit_bias.clear();
  options.repeat_penalty = 1.5f;
  CHECK(sample({1, 2}) == 3);
}
