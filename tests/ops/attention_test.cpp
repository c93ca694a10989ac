// Attention over a cache: right against double arithmetic, and the same bits however a sequence is cut into steps, whoever
// computes it and beside whatever else.
#include "ops/attention.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "base/aligned.h"
#include "base/rng.h"

using namespace quern;

namespace {

struct Shape {
  size_t n_heads = 4, n_kv_heads = 2, k_dim = 32, v_dim = 32;
  bool values_in_keys = false;  ///< the first v_dim dimensions of a key are its value
};

/// A sequence of random projections, the same for the same seed.
struct Sequence {
  Shape shape;
  size_t n;
  std::vector<float> q, k, v;
  Sequence(Shape s, size_t n_tokens, uint64_t seed) : shape(s), n(n_tokens), q(n * s.n_heads * s.k_dim), k(n * s.n_kv_heads * s.k_dim), v(n * s.n_kv_heads * s.v_dim) {
    Rng rng(seed);
    for (std::vector<float>* x : {&q, &k, &v}) {
      for (float& f : *x) f = rng.uniform(-2, 2);
    }
    for (size_t i = 0; s.values_in_keys && i < v.size(); ++i) v[i] = k[i / s.v_dim * s.k_dim + i % s.v_dim];
  }
  size_t out_row() const { return shape.n_heads * shape.v_dim; }
};

struct Setup {
  KvType k_type = KvType::kF16, v_type = KvType::kF16;
  uint32_t window = 0;
  KvPolicy policy = {};
  size_t max_chunk = 512;
  float scale = 0.18f, softcap = 0.0f;
  std::vector<float> sinks = {};
  std::vector<float> slopes = {};
  int n_threads = 1;
  const RopeTable* rope = nullptr;
  const kernels::Kernels* kernels = kernels::kernels_for(kernels::Isa::kScalar);
};

const kernels::Kernels* best_kernels() {
  const kernels::Kernels* best = kernels::kernels_for(kernels::Isa::kScalar);
  for (const kernels::Isa isa : {kernels::Isa::kAvx2, kernels::Isa::kAvx512}) {
    if (const kernels::Kernels* table = kernels::kernels_for(isa)) best = table;
  }
  return best;
}

std::unique_ptr<KvCache> make_cache(const Shape& s, const Setup& setup, size_t n_ctx) {
  const KvLayerGeometry layer{uint32_t(s.n_kv_heads), uint32_t(s.k_dim), s.values_in_keys ? 0 : uint32_t(s.v_dim), setup.window};
  return std::make_unique<KvCache>(KvLayout({layer}, {.k_type = setup.k_type, .v_type = setup.v_type, .n_ctx = n_ctx, .max_chunk = setup.max_chunk, .policy = setup.policy}));
}

/// Which tokens of which sequence one step takes.
struct Part {
  const Sequence* sequence;
  KvCache* cache;
  size_t first, n;
  float* out;  // of the whole sequence
};

void step(const std::vector<Part>& parts, const Setup& setup) {
  const Shape shape = parts[0].sequence->shape;
  std::vector<float> q, k, v;
  std::vector<ops::AttentionSegment> segments;
  size_t rows = 0, n_pieces = 0;
  const auto append = [](std::vector<float>& to, const std::vector<float>& from, size_t first, size_t n, size_t width) {
    to.insert(to.end(), from.begin() + long(first * width), from.begin() + long((first + n) * width));
  };
  for (const Part& p : parts) {
    p.cache->prepare(p.first + p.n);
    segments.push_back({p.cache, p.first, rows, p.n, setup.rope});
    append(q, p.sequence->q, p.first, p.n, shape.n_heads * shape.k_dim);
    append(k, p.sequence->k, p.first, p.n, shape.n_kv_heads * shape.k_dim);
    append(v, p.sequence->v, p.first, p.n, shape.n_kv_heads * shape.v_dim);
    rows += p.n;
    n_pieces = std::max(n_pieces, ops::most_pieces_seen(p.cache->layout().layer(0), p.first + p.n));
  }
  std::vector<float> out(rows * shape.n_heads * shape.v_dim);
  AlignedBuffer<std::byte> workspace(ops::attention_workspace_bytes(rows, shape.n_heads, shape.n_kv_heads, shape.k_dim, shape.v_dim, n_pieces, setup.n_threads) + 64);
  std::memset(workspace.data(), 0xff, workspace.size());  // nothing may be taken as zero
  const std::vector<float> q_sink = q;
  ops::AttentionArgs args{.kernels = setup.kernels,
                          .segments = segments,
                          .layer = 0,
                          .pairing = setup.rope ? RopePairing::kHalf : RopePairing::kNone,
                          .n_heads = shape.n_heads,
                          .n_kv_heads = shape.n_kv_heads,
                          .k_dim = shape.k_dim,
                          .v_dim = shape.v_dim,
                          .q = q.data(),
                          .q_sink = parts[0].cache->has_sinks() ? q_sink.data() : nullptr,
                          .k = k.data(),
                          .v = v.data(),
                          .sinks = setup.sinks.empty() ? nullptr : setup.sinks.data(),
                          .slopes = setup.slopes.empty() ? nullptr : setup.slopes.data(),
                          .scale = setup.scale,
                          .softcap = setup.softcap,
                          .out = out.data(),
                          .workspace = workspace.data()};
  run_team(setup.n_threads, [&](Worker& worker) { ops::attention(worker, args, nullptr); });
  for (size_t i = workspace.size() - 64; i < workspace.size(); ++i) REQUIRE(workspace[i] == std::byte{0xff});
  size_t row = 0;
  for (const Part& p : parts) {
    p.cache->advance(p.first + p.n);
    std::copy_n(out.begin() + long(row * p.sequence->out_row()), p.n * p.sequence->out_row(), p.out + p.first * p.sequence->out_row());
    row += p.n;
  }
}

/// The whole sequence in steps of `chunk` tokens (the last shorter).
std::vector<float> run(const Sequence& s, const Setup& setup, size_t chunk) {
  const auto cache = make_cache(s.shape, setup, s.n);
  std::vector<float> out(s.n * s.out_row());
  for (size_t first = 0; first < s.n; first += chunk) step({{&s, cache.get(), first, std::min(chunk, s.n - first), out.data()}}, setup);
  return out;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) { return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * 4) == 0; }

/// Double arithmetic straight from the projections. Sees what the setup says it sees.
double worst_error(const Sequence& s, const Setup& setup, const std::vector<float>& out, size_t every = 1) {
  const Shape& shape = s.shape;
  const size_t group = shape.n_heads / shape.n_kv_heads;
  const size_t window = setup.policy.window ? setup.policy.window : setup.window;
  double worst = 0;
  for (size_t t = 0; t < s.n; t += every) {
    for (size_t h = 0; h < shape.n_heads; ++h) {
      const float* q = s.q.data() + (t * shape.n_heads + h) * shape.k_dim;
      std::vector<double> o(shape.v_dim, 0.0);
      double sum = setup.sinks.empty() ? 0 : std::exp(double(setup.sinks[h]));
      for (size_t pos = 0; pos <= t; ++pos) {
        if (window && pos + window <= t && pos >= setup.policy.sinks) continue;
        const float* k = s.k.data() + (pos * shape.n_kv_heads + h / group) * shape.k_dim;
        const float* v = s.v.data() + (pos * shape.n_kv_heads + h / group) * shape.v_dim;
        double dot = 0;
        for (size_t d = 0; d < shape.k_dim; ++d) dot += double(q[d]) * double(k[d]);
        dot *= double(setup.scale);
        if (setup.softcap > 0) dot = double(setup.softcap) * std::tanh(dot / double(setup.softcap));
        // With sinks, a position is never further away than the window and the sinks are wide.
        const size_t furthest = setup.policy.window ? setup.policy.window + setup.policy.sinks - 1 : t;
        if (!setup.slopes.empty()) dot -= double(setup.slopes[h]) * double(pos < setup.policy.sinks ? std::min(t, furthest) - pos : t - pos);
        const double weight = std::exp(dot);
        sum += weight;
        for (size_t d = 0; d < shape.v_dim; ++d) o[d] += weight * double(v[d]);
      }
      for (size_t d = 0; d < shape.v_dim; ++d) worst = std::max(worst, std::fabs(o[d] / sum - double(out[t * s.out_row() + h * shape.v_dim + d])));
    }
  }
  return worst;
}

}  // namespace

TEST_CASE("attention over an f32 cache agrees with double arithmetic") {
  const Sequence s({.n_heads = 6, .n_kv_heads = 2, .k_dim = 24, .v_dim = 20}, 600, 1);
  Setup setup{.k_type = KvType::kF32, .v_type = KvType::kF32, .kernels = best_kernels()};
  SECTION("full") {}
  SECTION("softcap") { setup.softcap = 4; }
  SECTION("learned sinks") { setup.sinks = {-1, 0, 1, 2, 3, 8}; }
  SECTION("window of 8") { setup.window = 8; }
  SECTION("window of 256") { setup.window = 256; }
  SECTION("sinks and window") { setup.policy = {.window = 50, .sinks = 4}; }
  SECTION("ALiBi") { setup.slopes = {0.5f, 0.25f, 0.125f, 0.0625f, 0.03125f, 0.015625f}; }
  SECTION("ALiBi with sinks and window") {
    setup.policy = {.window = 50, .sinks = 4};
    setup.slopes = {0.5f, 0.25f, 0.125f, 0.0625f, 0.03125f, 0.015625f};
  }
  CHECK(worst_error(s, setup, run(s, setup, 512), 7) < 1e-5);
  CHECK(worst_error(s, setup, run(s, setup, 1), 7) < 1e-5);
}

TEST_CASE("each type costs what its bits cost, at every head size") {
  const std::pair<KvType, std::pair<double, double>> bounds[] = {  // of uniform numbers in ±2; the lower one shows that the type is in use
      {KvType::kF16, {1e-6, 3e-3}}, {KvType::kBF16, {1e-4, 2e-2}}, {KvType::kInt8, {1e-4, 6e-2}}, {KvType::kFp8, {1e-3, 0.2}}, {KvType::kInt4, {1e-2, 0.8}}};
  for (const size_t dim : {64, 72, 80, 96, 100, 128, 256}) {
    const Sequence s({.n_heads = 4, .n_kv_heads = 2, .k_dim = dim, .v_dim = dim}, 300, dim);
    for (const auto& [type, bound] : bounds) {
      const Setup setup{.k_type = type, .v_type = type, .scale = float(1 / std::sqrt(double(dim))), .kernels = best_kernels()};
      const double error = worst_error(s, setup, run(s, setup, 300), 7);
      CAPTURE(kv_type_name(type), dim, error);
      CHECK(error > bound.first);
      CHECK(error < bound.second);
    }
  }
}

TEST_CASE("a large constant part of the keys, turned by the position, costs no quality") {
  // Qwen's keys: a bias of a hundred in a few channels, then rope. Without a frame 4 bits make noise of such keys.
  const size_t dim = 64;
  Sequence s({.n_heads = 4, .n_kv_heads = 2, .k_dim = dim, .v_dim = dim}, 700, 12);
  RopeTable table = make_rope_table({.base = 1e4f, .n_dims = dim}, {});
  add_frame_angles(table, 256);  // the pieces after the first are beyond the table
  const std::vector<std::pair<size_t, float>> bias = {{3, 40.0f}, {20, -70.0f}, {29, 120.0f}, {61, 90.0f}};
  std::vector<float> cos_sin(dim);
  for (size_t row = 0; row < s.n * 2; ++row) {
    float* k = s.k.data() + row * dim;
    for (const auto& [d, b] : bias) k[d] += b;
    rope_cos_sin(table, row / 2, cos_sin.data());
    kernels::kernels_for(kernels::Isa::kScalar)->vector->rope_half(k, cos_sin.data(), dim / 2);
  }
  for (const auto& [type, bound] : {std::pair{KvType::kInt8, 0.02}, {KvType::kFp8, 0.1}, {KvType::kInt4, 0.4}}) {
    Setup setup{.k_type = type, .v_type = KvType::kF32, .scale = 0.125f, .kernels = best_kernels()};
    const double without = worst_error(s, setup, run(s, setup, 300), 7);
    setup.rope = &table;
    const std::vector<float> out = run(s, setup, 300);
    const double error = worst_error(s, setup, out, 7);
    CAPTURE(kv_type_name(type), error, without);
    CHECK(error < bound);
    CHECK(error < 0.5 * without);
    CHECK(same_bits(run(s, setup, 1), out));
    setup.n_threads = 2;
    CHECK(same_bits(run(s, setup, 15), out));
    setup.kernels = kernels::kernels_for(kernels::Isa::kScalar);
    CHECK(same_bits(run(s, setup, 512), out));
  }
}

TEST_CASE("a frame made anew after rewinding knows nothing of the keys before") {
  const Sequence s({}, 300, 13), other({}, 300, 14);
  const Setup setup{.k_type = KvType::kInt4, .v_type = KvType::kInt4, .kernels = best_kernels()};
  for (const size_t kept : {5, 15, 16, 20}) {
    Sequence mixed = other;  // begins like s
    std::copy_n(s.q.begin(), kept * 4 * 32, mixed.q.begin());
    std::copy_n(s.k.begin(), kept * 2 * 32, mixed.k.begin());
    std::copy_n(s.v.begin(), kept * 2 * 32, mixed.v.begin());
    const auto cache = make_cache(s.shape, setup, s.n);
    std::vector<float> out(s.n * s.out_row());
    step({{&s, cache.get(), 0, 100, out.data()}}, setup);
    REQUIRE(cache->rewind(kept));
    std::vector<float> expected = run(mixed, setup, 300), got = expected;
    step({{&mixed, cache.get(), kept, 300 - kept, got.data()}}, setup);
    CAPTURE(kept);
    CHECK(same_bits(got, expected));
  }
}

TEST_CASE("the same bits however the sequence is cut, on every instruction set, with any number of threads") {
  const Sequence s({.n_heads = 4, .n_kv_heads = 2, .k_dim = 24, .v_dim = 40}, 530, 3);
  for (const KvType type : all_kv_types()) {
    for (const uint32_t window : {0u, 8u, 300u}) {
      // K and V of different types in turn.
      Setup setup{.k_type = type, .v_type = window == 8 ? all_kv_types()[(size_t(type) + 1) % all_kv_types().size()] : type, .window = window, .kernels = best_kernels()};
      const std::vector<float> expected = run(s, setup, 512);
      for (const kernels::Isa isa : {kernels::Isa::kScalar, kernels::Isa::kAvx2, kernels::Isa::kAvx512}) {
        setup.kernels = kernels::kernels_for(isa);
        if (!setup.kernels) continue;
        for (const int n_threads : {1, 2, 3}) {
          setup.n_threads = n_threads;
          for (const size_t chunk : {1, 7, 255, 256, 512}) {
            // Single tokens over many threads spend their time at barriers, and plain code its in fma calls: a sample is enough.
            if (chunk == 1 && (n_threads == 3 || window != 0 || type == KvType::kF32)) continue;
            if (chunk == 7 && n_threads == 3) continue;
            if (isa == kernels::Isa::kScalar && (n_threads > 1 || (chunk != 7 && chunk != 256))) continue;
            CAPTURE(kv_type_name(type), window, setup.kernels->name, n_threads, chunk);
            REQUIRE(same_bits(run(s, setup, chunk), expected));
          }
        }
      }
    }
  }
}

TEST_CASE("keys that hold their values: right in every type, the same bits as values stored apart and however cut") {
  for (const KvType type : all_kv_types()) {
    const Shape shape{.n_heads = 5, .n_kv_heads = 1, .k_dim = 40, .v_dim = 24, .values_in_keys = true};
    const Sequence s(shape, 400, 12);
    Setup setup{.k_type = type, .v_type = KvType::kF32, .sinks = {-1, 0, 1, 2, 3}, .kernels = best_kernels()};  // v_type plays no part
    const std::vector<float> whole = run(s, setup, 400);
    CAPTURE(kv_type_name(type));
    CHECK(worst_error(s, setup, whole, 7) < (type == KvType::kF32 ? 1e-5 : type == KvType::kInt4 ? 0.8 : 0.2));
    for (const int n_threads : {1, 2}) {
      setup.n_threads = n_threads;
      for (const size_t chunk : {1, 7, 256}) CHECK(same_bits(run(s, setup, chunk), whole));
    }
    if (type != KvType::kF32 && type != KvType::kF16 && type != KvType::kBF16) continue;  // the others share scales over the key
    Sequence apart = s;
    apart.shape.values_in_keys = false;
    setup.v_type = type;
    CHECK(same_bits(run(apart, setup, 64), whole));
  }
}

TEST_CASE("windows are right at every offset, also after the ring came round") {
  const Sequence s({.n_heads = 2, .n_kv_heads = 1, .k_dim = 16, .v_dim = 16}, 2600, 4);
  for (const uint32_t window : {8u, 255u, 256u, 257u, 512u}) {
    Setup setup{.k_type = KvType::kF32, .v_type = KvType::kF32, .window = window, .max_chunk = 300, .n_threads = 2, .kernels = best_kernels()};
    REQUIRE(make_cache(s.shape, setup, s.n)->layout().layer(0).is_ring);
    const std::vector<float> out = run(s, setup, 300);
    CAPTURE(window);
    CHECK(worst_error(s, setup, out, 3) < 1e-5);
    setup.max_chunk = 512;
    CHECK(same_bits(run(s, setup, 1), out));
    CHECK(same_bits(run(s, setup, 512), out));
    if (window == 8) {  // the planted fault: a window that is one too short is noticed
      setup.window = 7;
      CHECK_FALSE(same_bits(run(s, setup, 512), out));
    }
  }
}

TEST_CASE("endless generation keeps sinks and window in flat memory") {
  const Sequence s({.n_heads = 2, .n_kv_heads = 1, .k_dim = 16, .v_dim = 16}, 3000, 5);
  Setup setup{.k_type = KvType::kF32, .v_type = KvType::kF32, .policy = {.window = 300, .sinks = 5}, .max_chunk = 256, .kernels = best_kernels()};
  const auto cache = make_cache(s.shape, setup, 512);  // far shorter than the sequence
  std::vector<float> out(s.n * s.out_row());
  for (size_t first = 0; first < s.n; first += 200) {
    step({{&s, cache.get(), first, 200, out.data()}}, setup);
    REQUIRE(cache->committed_bytes() <= cache->layout().reserved_bytes());
  }
  CHECK(cache->layout().layer(0).n_pieces == 5);
  CHECK(worst_error(s, setup, out, 5) < 1e-5);
  CHECK(same_bits(run(s, setup, 1), out));
}

TEST_CASE("a sequence gets the same bits alone as in a batch") {
  const Shape shape{.n_heads = 6, .n_kv_heads = 2, .k_dim = 24, .v_dim = 24};
  const Sequence a(shape, 700, 6), b(shape, 300, 7), c(shape, 530, 8);
  for (const int n_threads : {1, 2}) {
    Setup setup{.n_threads = n_threads, .kernels = best_kernels()};
    const std::vector<float> alone[] = {run(a, setup, 512), run(b, setup, 512), run(c, setup, 512)};
    std::vector<float> out[] = {std::vector<float>(alone[0].size()), std::vector<float>(alone[1].size()), std::vector<float>(alone[2].size())};
    const auto ca = make_cache(shape, setup, 700), cb = make_cache(shape, setup, 300), cc = make_cache(shape, setup, 530);
    step({{&a, ca.get(), 0, 500, out[0].data()}, {&b, cb.get(), 0, 1, out[1].data()}, {&c, cc.get(), 0, 3, out[2].data()}}, setup);
    step({{&a, ca.get(), 500, 1, out[0].data()}, {&b, cb.get(), 1, 1, out[1].data()}, {&c, cc.get(), 3, 1, out[2].data()}}, setup);
    step({{&a, ca.get(), 501, 199, out[0].data()}, {&b, cb.get(), 2, 298, out[1].data()}, {&c, cc.get(), 4, 526, out[2].data()}}, setup);
    for (int i = 0; i < 3; ++i) CHECK(same_bits(out[i], alone[i]));
  }
}

TEST_CASE("a rewound sequence continues as if the rows had never been there") {
  const Sequence s({}, 900, 9), other({}, 900, 10);
  Setup setup{.window = 100, .max_chunk = 64, .kernels = best_kernels()};
  const std::vector<float> expected = run(s, setup, 64);
  const auto cache = make_cache(s.shape, setup, s.n);
  std::vector<float> out(expected.size()), waste(expected.size());
  for (size_t first = 0; first < 640; first += 64) step({{&s, cache.get(), first, 64, out.data()}}, setup);
  step({{&other, cache.get(), 640, 64, waste.data()}}, setup);
  REQUIRE(cache->rewind(640));
  for (size_t first = 640; first < s.n; first += 64) step({{&s, cache.get(), first, std::min<size_t>(64, s.n - first), out.data()}}, setup);
  CHECK(same_bits(out, expected));
}

TEST_CASE("a cancelled step does no work but still meets its barriers") {
  const Sequence s({}, 64, 11);
  Setup setup{.n_threads = 2, .kernels = best_kernels()};
  const auto cache = make_cache(s.shape, setup, 64);
  cache->prepare(64);
  std::vector<float> q = s.q, k = s.k, v = s.v, out(s.n * s.out_row(), 5.0f);
  const ops::AttentionSegment segment{cache.get(), 0, 0, 64, nullptr};
  AlignedBuffer<std::byte> workspace(ops::attention_workspace_bytes(64, 4, 2, 32, 32, 2, 2));
  const ops::AttentionArgs args{.kernels = setup.kernels, .segments = {&segment, 1}, .n_heads = 4, .n_kv_heads = 2, .k_dim = 32, .v_dim = 32, .q = q.data(), .k = k.data(), .v = v.data(), .out = out.data(), .workspace = workspace.data()};
  const std::atomic<bool> cancelled{true};
  run_team(2, [&](Worker& worker) { ops::attention(worker, args, &cancelled); });
  CHECK(std::all_of(out.begin(), out.end(), [](float x) { return x == 5.0f; }));
}
