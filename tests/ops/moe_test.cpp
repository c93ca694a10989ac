// Experts: every rule of choice against plain double arithmetic with planted ties, and a whole layer's experts against a loop over
// tokens, with the same bits however the tokens are cut into steps and whoever computes them.
#include "ops/moe.h"

#include <sys/mman.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "base/rng.h"

using namespace quern;

namespace {

struct Choice {
  std::vector<uint32_t> ids;
  std::vector<float> weights;
};

Choice choose(const RouterRule& rule, std::vector<float> logits, size_t n_used, const std::vector<float>& bias = {}, kernels::Isa isa = kernels::Isa::kScalar) {
  Choice c{std::vector<uint32_t>(n_used), std::vector<float>(n_used)};
  std::vector<float> scores(logits.size());
  ops::choose_experts(*kernels::kernels_for(isa)->vector, rule, logits.size(), n_used, logits.data(), bias.empty() ? nullptr : bias.data(), scores.data(), c.ids.data(), c.weights.data());
  return c;
}

/// The same in doubles, by sorting.
Choice expected(const RouterRule& rule, const std::vector<float>& logits, size_t n_used, const std::vector<float>& bias) {
  const size_t n = logits.size(), size = n / rule.n_groups;
  std::vector<double> probs(logits.begin(), logits.end());
  const auto softmax = [](std::vector<double>& x) {
    double sum = 0;
    for (double& v : x) sum += v = std::exp(v);
    for (double& v : x) v /= sum;
  };
  if (rule.gating == ExpertGating::kSoftmax) softmax(probs);
  if (rule.gating == ExpertGating::kSigmoid) for (double& v : probs) v = 1 / (1 + std::exp(-v));
  std::vector<double> scores = probs;
  for (size_t i = 0; i < bias.size(); ++i) scores[i] += bias[i];
  std::vector<std::pair<double, size_t>> groups;
  for (size_t g = 0; g < rule.n_groups; ++g) {
    std::vector<double> members(scores.begin() + ptrdiff_t(g * size), scores.begin() + ptrdiff_t((g + 1) * size));
    std::sort(members.rbegin(), members.rend());
    groups.emplace_back(-(rule.gating == ExpertGating::kSigmoid ? members[0] + members[1] : members[0]), g);
  }
  std::sort(groups.begin(), groups.end());
  std::vector<size_t> candidates;
  for (size_t g = 0; g < rule.n_groups_used; ++g) {
    for (size_t i = 0; i < size; ++i) candidates.push_back(groups[g].second * size + i);
  }
  std::sort(candidates.begin(), candidates.end(), [&](size_t a, size_t b) { return scores[a] != scores[b] ? scores[a] > scores[b] : a < b; });
  std::vector<double> weights;
  Choice c;
  for (size_t i = 0; i < n_used; ++i) {
    c.ids.push_back(uint32_t(candidates[i]));
    weights.push_back(probs[candidates[i]]);
  }
  if (rule.gating == ExpertGating::kSoftmaxChosen) softmax(weights);
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (const double w : weights) c.weights.push_back(float((rule.normalise ? w / sum : w) * rule.scale));
  return c;
}

std::vector<kernels::Isa> isas() {
  std::vector<kernels::Isa> all;
  for (const kernels::Isa isa : {kernels::Isa::kScalar, kernels::Isa::kAvx2, kernels::Isa::kAvx512}) {
    if (kernels::kernels_for(isa)) all.push_back(isa);
    else WARN("skipped: this CPU has no " << (isa == kernels::Isa::kAvx2 ? "avx2" : "avx512"));
  }
  return all;
}

}  // namespace

TEST_CASE("every rule of choice agrees with plain arithmetic, on every instruction set") {
  Rng rng(3);
  int n_bias_matters = 0, n_groups_matter = 0;
  for (const ExpertGating gating : {ExpertGating::kSoftmax, ExpertGating::kSigmoid, ExpertGating::kSoftmaxChosen}) {
    for (const bool normalise : {false, true}) {
      for (const float scale : {1.0f, 2.5f}) {
        for (const uint32_t n_groups : {1u, 4u}) {
          for (const bool biased : {false, true}) {
            for (int repeat = 0; repeat < 10; ++repeat) {
              const RouterRule rule{gating, normalise, scale, n_groups, n_groups == 1 ? 1u : 2u};
              std::vector<float> logits(24), bias(biased ? 24 : 0);
              for (float& x : logits) x = rng.uniform(-3, 3);
              for (float& x : bias) x = rng.uniform(-0.5f, 0.5f);
              const Choice want = expected(rule, logits, 5, bias);
              const Choice scalar = choose(rule, logits, 5, bias);
              REQUIRE(scalar.ids == want.ids);
              for (size_t i = 0; i < 5; ++i) REQUIRE(scalar.weights[i] == Approx(want.weights[i]).epsilon(1e-5));
              for (const kernels::Isa isa : isas()) {
                const Choice other = choose(rule, logits, 5, bias, isa);
                REQUIRE(other.ids == scalar.ids);
                REQUIRE(std::memcmp(other.weights.data(), scalar.weights.data(), 5 * sizeof(float)) == 0);
              }
              n_bias_matters += biased && choose(rule, logits, 5).ids != scalar.ids;
              n_groups_matter += n_groups > 1 && choose({gating, normalise, scale, 1, 1}, logits, 5, bias).ids != scalar.ids;
            }
          }
        }
      }
    }
  }
  CHECK(n_bias_matters > 20);
  CHECK(n_groups_matter > 20);
}

TEST_CASE("equal experts and equal groups go to the lowest id") {
  for (const ExpertGating gating : {ExpertGating::kSoftmax, ExpertGating::kSigmoid, ExpertGating::kSoftmaxChosen}) {
    for (const kernels::Isa isa : isas()) {
      CHECK(choose({gating, false, 1, 1, 1}, std::vector<float>(40, 0.5f), 3, {}, isa).ids == std::vector<uint32_t>{0, 1, 2});
      std::vector<float> logits(40, -1.0f);
      logits[7] = logits[19] = logits[33] = 2.0f;
      logits[38] = 3.0f;
      CHECK(choose({gating, false, 1, 1, 1}, logits, 3, {}, isa).ids == std::vector<uint32_t>{38, 7, 19});
      // Four groups of ten: the last holds the best, of the others, equally good, the first is taken.
      const Choice c = choose({gating, false, 1, 4, 2}, logits, 4, {}, isa);
      CHECK(c.ids == std::vector<uint32_t>{38, 7, 33, 0});
    }
  }
}

TEST_CASE("a group's quality is its best expert, under sigmoid gating its two best together") {
  const std::vector<float> logits = {3.0f, -4.0f, 2.0f, 2.0f, 0.0f, 0.0f};
  CHECK(choose({ExpertGating::kSoftmax, false, 1, 3, 1}, logits, 1).ids[0] == 0);
  CHECK(choose({ExpertGating::kSigmoid, false, 1, 3, 1}, logits, 1).ids[0] == 2);
}

TEST_CASE("the bias moves the choice and not the weights; vanishing weights are not blown up") {
  const Choice c = choose({ExpertGating::kSigmoid, false, 1, 1, 1}, {1.0f, 0.0f, -1.0f}, 1, {0, 0, 9});
  CHECK(c.ids[0] == 2);
  CHECK(c.weights[0] == Approx(1 / (1 + std::exp(1.0))));
  CHECK(choose({ExpertGating::kSigmoid, true, 1, 1, 1}, {-80.0f, -81.0f}, 2).weights[0] < 1e-20f);
}

namespace {

constexpr size_t kEmbd = 64, kFf = 96, kExperts = 6, kUsed = 2;

/// Random experts whose matrices start on pages of their own, so that a test can take the pages away.
class Layer {
 public:
  explicit Layer(bool gated, bool shared) {
    Rng rng(9);
    params_.n_experts = kExperts;
    params_.n_experts_used = kUsed;
    params_.n_ff_expert = kFf;
    const auto fill = [&](size_t n_rows, size_t n_cols) {
      const size_t bytes = (n_rows * n_cols * sizeof(float) + 4095) / 4096 * 4096;
      float* p = static_cast<float*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
      for (size_t i = 0; i < n_rows * n_cols; ++i) p[i] = rng.uniform(-0.3f, 0.3f);
      pages_.push_back({p, bytes});
      Weight w;
      w.data = reinterpret_cast<const std::byte*>(p);
      w.row_bytes = n_cols * sizeof(float);
      w.n_rows = n_rows;
      w.n_cols = n_cols;
      return w;
    };
    experts_.router = fill(kExperts, kEmbd);
    for (size_t e = 0; e < kExperts; ++e) {
      if (gated) experts_.gate.push_back(fill(kFf, kEmbd));
      experts_.up.push_back(fill(kFf, kEmbd));
      experts_.down.push_back(fill(kEmbd, kFf));
      for (size_t i = 0; i < kEmbd; ++i) experts_.down.back().bias.push_back(rng.uniform(-0.1f, 0.1f));
    }
    if (shared) for (size_t i = 0; i < kEmbd; ++i) experts_.shared_gate.push_back(rng.uniform(-0.3f, 0.3f));
  }
  ~Layer() { for (const auto& [p, bytes] : pages_) munmap(p, bytes); }
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  Experts& experts() { return experts_; }

  /// One step over rows [n, kEmbd]; `shared` is what the shared expert gave, or null.
  std::vector<float> step(const std::vector<float>& rows, const std::vector<float>* shared, int n_threads, const kernels::Kernels& kernels, int* fault = nullptr) {
    const size_t n = rows.size() / kEmbd;
    ops::ExpertBuffers buffers;
    buffers.resize(n, kExperts, kUsed, kEmbd, kFf);
    ops::FirstFault first_fault;
    std::vector<float> out = shared ? *shared : std::vector<float>(rows.size(), 1e9f), sums(rows.size());
    std::vector<AlignedBuffer<std::byte>> scratch(static_cast<size_t>(n_threads));
    for (auto& bytes : scratch) bytes.resize(ops::matmul_scratch_bytes(n, std::max(kEmbd, kFf)));
    run_team(n_threads, [&](Worker& worker) {
      ops::MoeArgs args;
      args.experts = &experts_;
      args.layer = &params_;
      args.rule = &rule;
      args.vector = kernels.vector;
      args.matmul = {kernels.matmul, true, n, scratch[size_t(worker.index())].data(), nullptr};
      args.input = {rows.data(), kEmbd, {}};
      args.buffers = &buffers;
      args.fault = &first_fault;
      args.router_place = 3;
      args.inner_place = 4;
      ops::route(worker, args);
      ops::experts_up(worker, args);
      ops::experts_down(worker, args);
      ops::combine(worker, args, shared != nullptr, sums.data(), out.data());
    });
    if (fault) *fault = first_fault.place;
    ids.assign(buffers.ids.data(), buffers.ids.data() + n * kUsed);
    return out;
  }

  RouterRule rule{ExpertGating::kSoftmax, true, 1.5f, 1, 1};
  std::vector<uint32_t> ids;   ///< of the last step

  /// The pages of an expert's matrices are there or not.
  void protect(size_t expert, int protection) {
    const size_t per_expert = experts_.gate.empty() ? 2 : 3;
    for (size_t i = 0; i < per_expert; ++i) mprotect(pages_[1 + expert * per_expert + i].first, pages_[1 + expert * per_expert + i].second, protection);
  }

 private:
  Experts experts_;
  LayerParams params_;
  std::vector<std::pair<void*, size_t>> pages_;
};

std::vector<float> random_rows(size_t n, uint64_t seed) {
  Rng rng(seed);
  std::vector<float> rows(n * kEmbd);
  for (float& x : rows) x = rng.uniform(-1, 1);
  return rows;
}

double at(const Weight& w, size_t r, size_t c) { return reinterpret_cast<const float*>(w.data)[r * w.n_cols + c]; }

std::vector<double> product(const Weight& w, const std::vector<double>& x) {
  std::vector<double> y(w.n_rows);
  for (size_t r = 0; r < w.n_rows; ++r) {
    for (size_t c = 0; c < w.n_cols; ++c) y[r] += at(w, r, c) * x[c];
    if (!w.bias.empty()) y[r] += w.bias[r];
  }
  return y;
}

}  // namespace

TEST_CASE("a layer's experts against a loop over tokens in doubles") {
  for (const bool gated : {true, false}) {
    for (const bool has_shared : {true, false}) {
      Layer layer(gated, has_shared);
      const std::vector<float> rows = random_rows(9, 21), shared = random_rows(9, 22);
      const std::vector<float> got = layer.step(rows, has_shared ? &shared : nullptr, 2, kernels::active_kernels());
      const Experts& e = layer.experts();
      for (size_t t = 0; t < 9; ++t) {
        const std::vector<double> x(rows.begin() + ptrdiff_t(t * kEmbd), rows.begin() + ptrdiff_t((t + 1) * kEmbd));
        const std::vector<double> logits = product(e.router, x);
        const Choice c = expected(layer.rule, std::vector<float>(logits.begin(), logits.end()), kUsed, {});
        std::vector<double> sum(kEmbd);
        for (size_t i = 0; i < kUsed; ++i) {
          REQUIRE(layer.ids[t * kUsed + i] == c.ids[i]);
          std::vector<double> inner = product(e.up[c.ids[i]], x);
          if (gated) {
            const std::vector<double> gate = product(e.gate[c.ids[i]], x);
            for (size_t k = 0; k < kFf; ++k) inner[k] *= gate[k] / (1 + std::exp(-gate[k]));
          } else {
            for (double& v : inner) v /= 1 + std::exp(-v);
          }
          const std::vector<double> down = product(e.down[c.ids[i]], inner);
          for (size_t k = 0; k < kEmbd; ++k) sum[k] += c.weights[i] * down[k];
        }
        double gate = 0;
        for (size_t k = 0; has_shared && k < kEmbd; ++k) gate += x[k] * e.shared_gate[k];
        for (size_t k = 0; k < kEmbd; ++k) {
          const double want = sum[k] + (has_shared ? shared[t * kEmbd + k] / (1 + std::exp(-gate)) : 0.0);
          REQUIRE(got[t * kEmbd + k] == Approx(want).margin(2e-5));
        }
      }
    }
  }
}

TEST_CASE("experts give the same bits in any chunks, on any number of threads and instruction set") {
  Layer layer(true, true);
  const std::vector<float> rows = random_rows(37, 5), shared = random_rows(37, 6);
  const std::vector<float> whole = layer.step(rows, &shared, 1, *kernels::kernels_for(kernels::Isa::kScalar));
  for (const kernels::Isa isa : isas()) {
    for (const int threads : {1, 2, 3}) {
      for (const size_t chunk : {1, 5, 16, 37}) {
        std::vector<float> joined;
        for (size_t t = 0; t < 37; t += chunk) {
          const auto cut = [&](const std::vector<float>& x) { return std::vector<float>(x.begin() + ptrdiff_t(t * kEmbd), x.begin() + ptrdiff_t(std::min<size_t>(37, t + chunk) * kEmbd)); };
          const std::vector<float> part = cut(shared), out = layer.step(cut(rows), &part, threads, *kernels::kernels_for(isa));
          joined.insert(joined.end(), out.begin(), out.end());
        }
        INFO(int(isa) << " threads " << threads << " chunk " << chunk);
        REQUIRE(std::memcmp(joined.data(), whole.data(), whole.size() * sizeof(float)) == 0);
      }
    }
  }
}

TEST_CASE("a token reads its own experts and no others") {
  Layer layer(true, false);
  const std::vector<float> row = random_rows(1, 31);
  const std::vector<float> want = layer.step(row, nullptr, 2, kernels::active_kernels());
  const std::vector<uint32_t> chosen = layer.ids;
  for (uint32_t e = 0; e < kExperts; ++e) {
    if (std::find(chosen.begin(), chosen.end(), e) == chosen.end()) layer.protect(e, PROT_NONE);  // reading one would end the test
  }
  CHECK(layer.step(row, nullptr, 2, kernels::active_kernels()) == want);
}

TEST_CASE("numbers that are not finite are found in the choice and inside the experts") {
  Layer layer(true, false);
  std::vector<float> rows = random_rows(4, 41);
  int fault = 0;
  layer.step(rows, nullptr, 2, kernels::active_kernels(), &fault);
  CHECK(fault == -1);
  rows[70] = 1e38f;
  rows[71] = 1e38f;
  layer.step(rows, nullptr, 2, kernels::active_kernels(), &fault);
  CHECK((fault == 3 || fault == 4));
  rows[70] = __builtin_nanf("");
  layer.step(rows, nullptr, 2, kernels::active_kernels(), &fault);
  CHECK(fault == 3);
}
