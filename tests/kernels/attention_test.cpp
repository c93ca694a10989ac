// The attention kernels against the definition in double precision, and every instruction set against plain code, bit by bit.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/aligned.h"
#include "base/fp.h"
#include "base/rng.h"
#include "kernels/isa.h"
#include "quant/kv_codec.h"
#include "quant/kv_frame.h"

using namespace quern;
using namespace quern::kernels;

namespace {

/// A full piece of random rows and some queries with visible ranges of their own.
struct Piece {
  KvType k_type, v_type;
  size_t k_dim, v_dim, n_queries;
  AlignedBuffer<std::byte> k_block, v_block;
  std::vector<float> queries;  // [n_queries][k_dim]
  std::vector<uint16_t> begin, end;
  float scale = 0.125f, softcap = 0.0f;
  std::vector<float> slopes, distances;  // empty: no ALiBi
  bool values_in_keys = false;

  Piece(KvType kt, KvType vt, size_t kd, size_t vd, size_t n, uint64_t seed) : k_type(kt), v_type(vt), k_dim(kd), v_dim(vd), n_queries(n) {
    Rng rng(seed);
    k_block.resize(kv_block_bytes(k_type, k_dim));
    v_block.resize(kv_block_bytes(v_type, v_dim));
    // What was never written must not matter: NaNs as far as the type has them.
    std::memset(k_block.data(), 0xff, k_block.size());
    std::memset(v_block.data(), 0xff, v_block.size());
    for (size_t i = 0; i < n; ++i) {
      const uint16_t b = uint16_t(rng.below(kPiecePositions));
      begin.push_back(i % 3 == 0 ? 0 : b);
      end.push_back(uint16_t(begin.back() + 1 + rng.below(kPiecePositions - begin.back())));
    }
    const size_t lowest = *std::min_element(begin.begin(), begin.end()), highest = *std::max_element(end.begin(), end.end());
    std::vector<float> row(std::max(k_dim, v_dim));
    for (size_t p = lowest; p < highest; ++p) {
      for (float& x : row) x = rng.uniform(-2, 2);
      kv_store_k(k_type, row.data(), k_dim, k_block.data(), p);
      for (float& x : row) x = rng.uniform(-2, 2);
      kv_store_v(v_type, row.data(), v_dim, v_block.data(), p);
    }
    for (size_t i = 0; i < n * k_dim; ++i) queries.push_back(rng.uniform(-3, 3));
  }

  /// Slopes of ALiBi; the queries stand some way behind what they see.
  void add_bias() {
    for (size_t i = 0; i < n_queries; ++i) {
      slopes.push_back(0.25f / float(i + 1));
      distances.push_back(-float(end[i] + i * 100));
    }
  }
};

struct Result {
  std::vector<float> m, l, o;
};

Result attend(const AttentionKernels& kernels, const Piece& p) {
  const size_t stride = (p.v_dim + 15) / 16 * 16, query_size = query_bytes(p.k_type, p.k_dim);
  Result r{std::vector<float>(p.n_queries), std::vector<float>(p.n_queries), std::vector<float>(p.n_queries * stride, 7.0f)};
  AlignedBuffer<std::byte> prepared(p.n_queries * query_size), scratch(attend_scratch_bytes(p.n_queries, p.k_dim, p.v_dim));
  for (size_t i = 0; i < p.n_queries; ++i) kernels.prepare_query(p.k_type, p.queries.data() + i * p.k_dim, p.k_dim, prepared.data() + i * query_size);
  kernels.attend({p.k_type, p.v_type, p.k_dim, p.v_dim, p.k_block.data(), p.values_in_keys ? nullptr : p.v_block.data(), nullptr, prepared.data(), p.n_queries, p.begin.data(), p.end.data(),
                  p.scale, p.softcap, r.m.data(), r.l.data(), r.o.data(), stride, scratch.data(), p.slopes.empty() ? nullptr : p.slopes.data(), p.distances.data()});
  std::vector<float> packed;
  for (size_t i = 0; i < p.n_queries; ++i) packed.insert(packed.end(), r.o.begin() + long(i * stride), r.o.begin() + long(i * stride + p.v_dim));
  r.o = packed;
  return r;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) { return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * 4) == 0; }

/// Largest error of o/l against double arithmetic on the rows as they read back.
double worst_error(const Piece& p, const Result& r) {
  double worst = 0;
  std::vector<float> row(std::max(p.k_dim, p.v_dim));
  for (size_t i = 0; i < p.n_queries; ++i) {
    std::vector<double> s, o(p.v_dim, 0.0);
    double top = -INFINITY, sum = 0;
    for (size_t pos = p.begin[i]; pos < p.end[i]; ++pos) {
      kv_load_k(p.k_type, p.k_block.data(), p.k_dim, pos, row.data());
      double dot = 0;
      for (size_t d = 0; d < p.k_dim; ++d) dot += double(row[d]) * double(p.queries[i * p.k_dim + d]);
      dot *= double(p.scale);
      if (p.softcap > 0) dot = double(p.softcap) * std::tanh(dot / double(p.softcap));
      if (!p.slopes.empty()) dot += double(p.slopes[i]) * (double(p.distances[i]) + double(pos));
      s.push_back(dot);
      top = std::max(top, dot);
    }
    for (size_t j = 0; j < s.size(); ++j) {
      const double weight = std::exp(s[j] - top);
      sum += weight;
      if (p.values_in_keys) kv_load_k(p.k_type, p.k_block.data(), p.k_dim, p.begin[i] + j, row.data());
      else kv_load_v(p.v_type, p.v_block.data(), p.v_dim, p.begin[i] + j, row.data());
      for (size_t d = 0; d < p.v_dim; ++d) o[d] += weight * double(row[d]);
    }
    worst = std::max(worst, std::fabs(top - double(r.m[i])) / 10);
    for (size_t d = 0; d < p.v_dim; ++d) worst = std::max(worst, std::fabs(o[d] / sum - double(r.o[i * p.v_dim + d]) / double(r.l[i])));
  }
  return worst;
}

/// What rounding the query to 8 bits costs on top of float arithmetic, for this test's numbers.
double tolerance(KvType k_type) { return kv_type_has_integer_scores(k_type) ? 0.05 : 2e-5; }

}  // namespace

TEST_CASE("attention of a piece agrees with double arithmetic") {
  for (const Kernels* isa : test::isas()) {
    const Kernels& kernels = *isa;
    for (const KvType type : all_kv_types()) {
      for (const size_t dim : {64, 100}) {
        for (const float softcap : {0.0f, 5.0f}) {
          Piece p(type, type, dim, dim, 11, dim);
          p.softcap = softcap;
          CAPTURE(kernels.name, kv_type_name(type), dim, softcap);
          const Result plain = attend(*kernels.attention, p);
          CHECK(worst_error(p, plain) < tolerance(type));
          p.add_bias();
          CHECK(worst_error(p, attend(*kernels.attention, p)) < tolerance(type));
          CHECK(worst_error(p, plain) > 2 * tolerance(type));  // the bias is noticed
        }
      }
    }
  }
}

TEST_CASE("attention gives the same bits on every instruction set, for every head size and number of queries") {
  const AttentionKernels& plain = *test::scalar().attention;
  for (const Kernels* isa : test::isas()) {
    const Kernels& kernels = *isa;
    uint64_t seed = 1;
    for (const KvType k_type : all_kv_types()) {
      for (const size_t dim : {1, 8, 15, 64, 72, 80, 96, 100, 128, 256}) {
        for (const size_t n_queries : {1, 3, 7, 8, 9, 22}) {
          const KvType v_type = all_kv_types()[seed % all_kv_types().size()];
          ++seed;
          Piece p(k_type, v_type, dim, seed % 2 ? dim : dim / 2 + 1, n_queries, seed);
          if (seed % 4 == 0) p.add_bias();
          const Result expected = attend(plain, p), got = attend(*kernels.attention, p);
          CAPTURE(kernels.name, kv_type_name(k_type), kv_type_name(v_type), dim, n_queries);
          REQUIRE(std::all_of(expected.o.begin(), expected.o.end(), [](float x) { return std::isfinite(x); }));
          REQUIRE(same_bits(got.m, expected.m));
          REQUIRE(same_bits(got.l, expected.l));
          REQUIRE(same_bits(got.o, expected.o));
        }
      }
    }
  }
}

TEST_CASE("values may be the first dimensions of the keys") {
  const AttentionKernels& plain = *test::scalar().attention;
  for (const Kernels* isa : test::isas()) {
    const Kernels& kernels = *isa;
    uint64_t seed = 1;
    for (const KvType type : all_kv_types()) {
      for (const auto& [k_dim, v_dim] : {std::pair<size_t, size_t>{32, 24}, {576, 512}, {33, 7}, {26, 24}, {96, 64}, {64, 64}}) {
        for (const size_t n_queries : {1, 9, 16}) {
          Piece p(type, type, k_dim, v_dim, n_queries, ++seed);
          p.values_in_keys = true;
          p.scale = 1.0f / std::sqrt(float(k_dim));
          const Result expected = attend(plain, p), got = attend(*kernels.attention, p);
          CAPTURE(kernels.name, kv_type_name(type), k_dim, v_dim, n_queries);
          CHECK(worst_error(p, expected) < tolerance(type));
          REQUIRE(same_bits(got.m, expected.m));
          REQUIRE(same_bits(got.l, expected.l));
          REQUIRE(same_bits(got.o, expected.o));
          if (v_dim % kKvGroup || type == KvType::kFp8) continue;
          // Stored apart, the same codes give the same bits.
          std::vector<float> row(k_dim);
          for (size_t position = 0; position < kPiecePositions; ++position) {
            kv_load_k(type, p.k_block.data(), k_dim, position, row.data());
            kv_store_v(type, row.data(), v_dim, p.v_block.data(), position);
          }
          p.values_in_keys = false;
          if (type == KvType::kF32 || type == KvType::kF16 || type == KvType::kBF16) CHECK(same_bits(attend(*kernels.attention, p).o, got.o));
        }
      }
    }
  }
}

TEST_CASE("a query gets the same bits alone as among others") {
  for (const Kernels* isa : test::isas()) {
    const Kernels& kernels = *isa;
    for (const KvType type : all_kv_types()) {
      const Piece all(type, type, 80, 80, 23, 5);
      const Result together = attend(*kernels.attention, all);
      for (size_t i = 0; i < all.n_queries; ++i) {
        Piece one(type, type, 80, 80, 23, 5);
        one.n_queries = 1;
        one.queries.assign(all.queries.begin() + long(i * 80), all.queries.begin() + long(i * 80 + 80));
        one.begin = {all.begin[i]};
        one.end = {all.end[i]};
        const Result alone = attend(*kernels.attention, one);
        CAPTURE(kernels.name, kv_type_name(type), i);
        REQUIRE(alone.m[0] == together.m[i]);
        REQUIRE(alone.l[0] == together.l[i]);
        REQUIRE(std::memcmp(alone.o.data(), together.o.data() + i * 80, 80 * 4) == 0);
      }
    }
  }
}

namespace {

/// A piece whose keys are stored relative to a frame: a large mean in every third pair, which turns with the position.
struct FramedPiece : Piece {
  bool is_first;
  size_t n_turned;  // dimensions that turn
  std::vector<float> offsets, angles;
  AlignedBuffer<std::byte> frame_bytes;
  std::vector<std::vector<float>> keys;  // as they are read back

  FramedPiece(KvType type, size_t dim, size_t turned, bool first, size_t n, uint64_t seed) : Piece(type, KvType::kF32, dim, dim, n, seed), is_first(first), n_turned(turned) {
    const size_t n_pairs = turned / 2;
    const double start = first ? 0 : 5 * 256;
    offsets.resize(2 * n_pairs * kPiecePositions);
    for (size_t pair = 0; pair < n_pairs; ++pair) {
      const double freq = std::pow(1e4, -double(pair) / double(n_pairs));
      for (size_t i = 0; i < kPiecePositions; ++i) {
        offsets[2 * pair * kPiecePositions + i] = float(std::cos(double(i) * freq));
        offsets[(2 * pair + 1) * kPiecePositions + i] = float(std::sin(double(i) * freq));
      }
      angles.push_back(float(std::cos(start * freq)));
      angles.push_back(float(std::sin(start * freq)));
    }
    frame_bytes.resize(kv_frame_bytes(type, dim));
    std::memset(frame_bytes.data(), 0xff, frame_bytes.size());
    Rng rng(seed + 1);
    std::vector<float> zero_angles(angles.size());
    for (size_t pair = 0; pair < n_pairs; ++pair) zero_angles[2 * pair] = 1.0f;
    std::vector<float> mean(dim), row(dim), seen(2 * dim);
    for (size_t d = 0; d < dim; d += 3) mean[d] = rng.uniform(-30, 30);
    // The random part of a key, and what a mean turned by its position makes of it.
    const auto key_at = [&](size_t i, const std::vector<float>& base) {
      for (float& x : row) x = rng.uniform(-2, 2);
      for (size_t d = turned; d < dim; ++d) row[d] += mean[d];
      for (size_t pair = 0; pair < n_pairs; ++pair) {
        const KeyTurn t = turn();
        const double c = double(base[2 * pair]) * double(t.cosine(pair, i)) - double(base[2 * pair + 1]) * double(t.sine(pair, i));
        const double s = double(base[2 * pair + 1]) * double(t.cosine(pair, i)) + double(base[2 * pair]) * double(t.sine(pair, i));
        row[t.first(pair)] += float(double(mean[t.first(pair)]) * c - double(mean[t.second(pair)]) * s);
        row[t.second(pair)] += float(double(mean[t.first(pair)]) * s + double(mean[t.second(pair)]) * c);
      }
    };
    for (size_t i = 0; i < kHeadPositions; ++i) {
      key_at(i, zero_angles);
      for (float& x : seen) x = rng.uniform(-3, 3);
      kv_frame_add(frame(), dim, i, row.data(), seen.data(), 2);
    }
    kv_frame_complete(frame(), type, dim, turn());
    for (size_t i = 0; i < kPiecePositions; ++i) {
      std::vector<float> back(dim);
      if (first && i < kHeadPositions) {
        for (size_t d = 0; d < dim; ++d) back[d] = f16_to_f32(frame().keys[d * kHeadPositions + i]);
      } else {
        key_at(i, angles);
        kv_frame_remove(frame(), dim, turn(), angles.data(), i, row.data());
        kv_store_k(type, row.data(), dim, k_block.data(), i);
        kv_load_k(type, k_block.data(), dim, i, back.data());
        kv_frame_restore(frame(), dim, turn(), angles.data(), i, back.data());
      }
      keys.push_back(back);
    }
  }
  KeyTurn turn() const { return {n_turned / 2, seed_is_odd(), offsets.data()}; }
  bool seed_is_odd() const { return n_queries % 2 == 1; }  // interleaved or not in turn
  KeyFrame frame() const { return kv_frame_at(const_cast<std::byte*>(frame_bytes.data()), k_dim); }
};

Result attend(const AttentionKernels& kernels, const FramedPiece& p) {
  const size_t stride = (p.v_dim + 15) / 16 * 16, query_size = query_bytes(p.k_type, p.k_dim);
  Result r{std::vector<float>(p.n_queries), std::vector<float>(p.n_queries), std::vector<float>(p.n_queries * stride, 7.0f)};
  AlignedBuffer<std::byte> prepared(p.n_queries * query_size), scratch(attend_scratch_bytes(p.n_queries, p.k_dim, p.v_dim) + 64);
  std::memset(prepared.data(), 0xff, prepared.size());
  std::memset(scratch.data(), 0xff, scratch.size());
  std::vector<float> scaled(p.k_dim);
  for (size_t i = 0; i < p.n_queries; ++i) {
    const float* q = p.queries.data() + i * p.k_dim;
    std::byte* to = prepared.data() + i * query_size;
    float* terms = reinterpret_cast<float*>(to + query_terms_offset(p.k_type, p.k_dim));
    std::memcpy(to + query_float_offset(p.k_type, p.k_dim), q, p.k_dim * 4);
    kv_frame_query_terms(p.frame(), p.k_dim, p.turn(), q, terms, terms + 16, terms + 16 + query_term_floats(p.k_dim));
    for (size_t d = 0; d < p.k_dim; ++d) scaled[d] = q[d] * p.frame().to_query[d];
    kernels.prepare_query(p.k_type, scaled.data(), p.k_dim, to);
  }
  const AttendFrame frame{p.is_first ? p.frame().keys : nullptr, *p.frame().n_pairs, p.frame().pairs, p.offsets.data(), p.angles.data()};
  kernels.attend({p.k_type, p.v_type, p.k_dim, p.v_dim, p.k_block.data(), p.v_block.data(), &frame, prepared.data(), p.n_queries, p.begin.data(), p.end.data(),
                  p.scale, p.softcap, r.m.data(), r.l.data(), r.o.data(), stride, scratch.data()});
  for (size_t i = 0; i < 64; ++i) REQUIRE(scratch[scratch.size() - 1 - i] == std::byte{0xff});
  return r;
}

}  // namespace

TEST_CASE("keys that stand in a frame are scored as they read back, with the same bits on every instruction set") {
  const AttentionKernels& plain = *test::scalar().attention;
  for (const Kernels* isa : test::isas()) {
    for (const KvType type : {KvType::kInt8, KvType::kFp8, KvType::kInt4}) {
      for (const auto& [dim, turned] : {std::pair<size_t, size_t>{64, 64}, {80, 32}, {100, 100}, {7, 0}, {256, 256}}) {
        for (const size_t n_queries : {1, 3, 8, 9, 14}) {
          for (const bool is_first : {true, false}) {
            const FramedPiece p(type, dim, turned, is_first, n_queries, dim + n_queries);
            const Result expected = attend(plain, p), got = attend(*isa->attention, p);
            CAPTURE(isa->name, kv_type_name(type), dim, turned, n_queries, is_first, *p.frame().n_pairs);
            if (turned > 0) CHECK(*p.frame().n_pairs > 0);
            REQUIRE(same_bits(got.m, expected.m));
            REQUIRE(same_bits(got.l, expected.l));
            REQUIRE(std::memcmp(got.o.data(), expected.o.data(), got.o.size() * 4) == 0);
            // The best score against double arithmetic on the keys as they are read back: only the query's rounding differs.
            for (size_t i = 0; i < n_queries; ++i) {
              double top = -INFINITY, size = 0;
              for (size_t pos = p.begin[i]; pos < p.end[i]; ++pos) {
                double dot = 0, squares = 0;
                for (size_t d = 0; d < dim; ++d) {
                  const double x = double(p.keys[pos][d]) * double(p.queries[i * dim + d]);
                  dot += x;
                  squares += x * x;
                }
                top = std::max(top, dot * double(p.scale));
                size = std::max(size, std::sqrt(squares) * double(p.scale));
              }
              CHECK(std::fabs(top - double(got.m[i])) < (kv_type_has_integer_scores(type) ? 0.01 : 1e-5) * (size + 1));
            }
          }
        }
      }
    }
  }
}

TEST_CASE("rows are stored as the codec defines, on every instruction set") {
  for (const Kernels* isa : test::isas()) {
    const Kernels& kernels = *isa;
    Rng rng(3);
    for (const KvType type : all_kv_types()) {
      for (const size_t dim : {1, 15, 64, 72, 100}) {
        AlignedBuffer<std::byte> expected(kv_block_bytes(type, dim)), got(expected.size());
        expected.zero();
        got.zero();
        std::vector<float> row(dim);
        for (const size_t position : {0, 1, 16, 37, 255}) {
          for (float& x : row) x = rng.uniform(-5, 5);
          if (position == 37) row[0] = 7e4f;
          kv_store_k(type, row.data(), dim, expected.data(), position);
          kernels.attention->store_k(type, row.data(), dim, got.data(), position);
        }
        CAPTURE(kernels.name, kv_type_name(type), dim);
        CHECK(std::memcmp(expected.data(), got.data(), got.size()) == 0);
        kv_store_v(type, row.data(), dim, expected.data(), 9);
        kernels.attention->store_v(type, row.data(), dim, got.data(), 9);
        CHECK(std::memcmp(expected.data(), got.data(), got.size()) == 0);
      }
    }
  }
}

TEST_CASE("merging starts from nothing and keeps the order of pieces") {
  for (const Kernels* isa : test::isas()) {
    const Kernels& kernels = *isa;
    float m = -INFINITY, l = 0, o[3] = {};
    const float first[] = {2, -4, 6}, second[] = {1, 1, 1};
    kernels.attention->merge(&m, &l, o, 1.5f, 2.0f, first, 3);
    CHECK(m == 1.5f);
    CHECK(l == 2.0f);
    CHECK(std::memcmp(o, first, sizeof o) == 0);
    kernels.attention->merge(&m, &l, o, 2.5f, 1.0f, second, 3);
    CHECK(m == 2.5f);
    CHECK(l == Approx(2 * std::exp(-1.0) + 1));
    CHECK(o[1] == Approx(-4 * std::exp(-1.0) + 1));
  }
}

TEST_CASE("a key of small values with one of 900 survives every type") {
  // A few channels of Qwen's keys are hundreds of times larger than the rest. The error of the small values is what the type's
  // resolution leaves: fp8 keeps them relative to themselves or flushes below 2^-9 of its scale, the rotated types spread the outlier.
  const VectorKernels& vector = *test::scalar().vector;
  const size_t dim = 64;
  std::vector<float> row(dim);
  Rng rng(17);
  for (float& x : row) x = rng.uniform(-0.01f, 0.01f);
  row[21] = 900.0f;
  const std::pair<KvType, std::pair<float, float>> bounds[] = {  // relative error of the outlier, largest error of the others
      {KvType::kF16, {0.001f, 1e-5f}}, {KvType::kFp8, {0.07f, 0.0021f}}, {KvType::kInt8, {0.01f, 3.6f}}, {KvType::kInt4, {0.07f, 60.0f}}};
  for (const auto& [type, bound] : bounds) {
    AlignedBuffer<std::byte> block(kv_block_bytes(type, dim));
    std::vector<float> x = row, back(dim);
    if (kv_type_is_rotated(type)) vector.hadamard(x.data(), dim);
    kv_store_k(type, x.data(), dim, block.data(), 200);
    kv_load_k(type, block.data(), dim, 200, back.data());
    if (kv_type_is_rotated(type)) vector.hadamard(back.data(), dim);
    float others = 0;
    for (size_t i = 0; i < dim; ++i) {
      REQUIRE(std::isfinite(back[i]));
      if (i != 21) others = std::max(others, std::fabs(back[i] - row[i]));
    }
    CAPTURE(kv_type_name(type), back[21], others);
    CHECK(std::fabs(back[21] - 900.0f) / 900.0f < bound.first);
    CHECK(others < bound.second);
  }
}

TEST_CASE("values beyond a type's range saturate, and what is not finite shows") {
  for (const KvType type : {KvType::kFp8, KvType::kInt8, KvType::kInt4}) {
    AlignedBuffer<std::byte> block(kv_block_bytes(type, 32));
    for (const float huge : {448.0f, 449.0f, 1e6f, 3e7f, 1e30f, 3e38f}) {
      std::vector<float> row(32, 1.0f), back(32);
      row[3] = huge;
      row[4] = -huge;
      kv_store_v(type, row.data(), 32, block.data(), 0);
      kv_load_v(type, block.data(), 32, 0, back.data());
      CAPTURE(kv_type_name(type), huge);
      CHECK(std::all_of(back.begin(), back.end(), [](float x) { return std::isfinite(x); }));
      CHECK(back[3] > 390.0f);
      CHECK(back[4] < -390.0f);
    }
    for (const float bad : {NAN, INFINITY}) {
      std::vector<float> row(32, 1.0f), back(32);
      row[3] = bad;
      kv_store_k(type, row.data(), 32, block.data(), 0);
      kv_load_k(type, block.data(), 32, 0, back.data());
      CHECK(std::isnan(back[0]));
    }
  }
}
