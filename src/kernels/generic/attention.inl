// Attention over one piece of the cache, written once over the lane vocabulary. Scores take 16 positions as lanes and run over the
// dimensions, values take 16 dimensions as lanes and run over the positions, so neither needs a horizontal sum. Register
// blocks of queries × vectors only change what is computed together, never the order within one result.
#include <cstring>
#include <type_traits>

#include "kernels/generic/math.inl"
#include "kernels/tables.h"
#include "quant/kv_codec.h"
#include "quant/kv_frame.h"

namespace quern::kernels::QUERN_ISA {
namespace {

constexpr size_t kTile = kKeyTilePositions;
constexpr size_t kTiles = kPiecePositions / kTile;
/// With more queries than this, K and V are converted to float32 once for all of them; with fewer they are read as they are.
constexpr size_t kMostDirectQueries = 8;

// Not std::min and std::max: a copy of theirs built for this instruction set could be linked into code for others.
inline size_t lesser(size_t a, size_t b) { return a < b ? a : b; }
inline size_t larger(size_t a, size_t b) { return a > b ? a : b; }

template <int n>
struct Int {
  static constexpr int value = n;
};

/// Calls f(first, Int<Q>) for blocks of Q queries, the largest that the registers hold first.
template <int Q = kMostBlockQueries, typename F>
inline void for_query_blocks(size_t first, size_t n, F&& f) {
  for (; n >= size_t(Q); first += Q, n -= Q) f(first, Int<Q>{});
  if constexpr (Q > 1) {
    if (n) for_query_blocks<Q - 1>(first, n, f);
  }
}

/// Calls f(first, Int<N>) over n vectors in blocks of N, then of 1.
template <int N, typename F>
inline void for_vector_blocks(size_t first, size_t n, F&& f) {
  for (; n >= size_t(N); first += N, n -= N) f(first, Int<N>{});
  if constexpr (N > 1) {
    for (; n; ++first, --n) f(first, Int<1>{});
  }
}

inline const uint16_t* scales_of(const std::byte* block, KvType type, size_t dim) {
  return reinterpret_cast<const uint16_t*>(block + kPiecePositions * kv_row_size(type, dim).code_bytes);
}

// ---- scores ----------------------------------------------------------------------------------------------------------------

/// How the cells of a float K tile become vectors of 16 positions.
struct KeysF32 {
  static F32x16 load(const std::byte* tile, size_t d) { return quern::kernels::QUERN_ISA::load(reinterpret_cast<const float*>(tile) + d * kTile); }
};
struct KeysF16 {
  static F32x16 load(const std::byte* tile, size_t d) { return load_f16(reinterpret_cast<const uint16_t*>(tile) + d * kTile); }
};
struct KeysBF16 {
  static F32x16 load(const std::byte* tile, size_t d) { return load_bf16(reinterpret_cast<const uint16_t*>(tile) + d * kTile); }
};

struct KeysFp8 {  // the 256 comes back with the row scale
  static F32x16 load(const std::byte* tile, size_t d) { return load_e4m3(reinterpret_cast<const uint8_t*>(tile) + d * kTile); }
};

/// Dots of Q queries with T tiles: scores[q][tile][16].
template <typename Keys, int Q, int T>
inline void score_block(const std::byte* tiles, size_t tile_bytes, const std::byte* queries, size_t query_stride, size_t dim, float* scores) {
  F32x16 acc[Q][T];
  for (int i = 0; i < Q; ++i) {
    for (int t = 0; t < T; ++t) acc[i][t] = zero();
  }
  for (size_t d = 0; d < dim; ++d) {
    F32x16 k[T];
    for (int t = 0; t < T; ++t) k[t] = Keys::load(tiles + t * tile_bytes, d);
    for (int i = 0; i < Q; ++i) {
      const F32x16 q = set1(reinterpret_cast<const float*>(queries + i * query_stride)[d]);
      for (int t = 0; t < T; ++t) acc[i][t] = fma(q, k[t], acc[i][t]);
    }
  }
  for (int i = 0; i < Q; ++i) {
    for (int t = 0; t < T; ++t) store(scores + i * kPiecePositions + t * kTile, acc[i][t]);
  }
}

/// Dots of all queries (float, from `queries` on) with tiles [first, last) of float keys.
template <typename Keys>
void score_tiles(const AttendPiece& a, const std::byte* queries, size_t query_stride, size_t first, size_t last, const std::byte* tiles, size_t tile_bytes, float* scores) {
  for_query_blocks(0, a.n_queries, [&](size_t i, auto q) {
    constexpr int kQ = decltype(q)::value;
    for_vector_blocks<block_vectors(kQ)>(first, last - first, [&](size_t t, auto n) {
      score_block<Keys, kQ, decltype(n)::value>(tiles + (t - first) * tile_bytes, tile_bytes, queries + i * query_stride, query_stride, a.k_dim,
                                                scores + i * kPiecePositions + t * kTile);
    });
  });
}

template <typename Keys>
void float_scores(const AttendPiece& a, size_t first, size_t last, float* scores, float* converted) {
  const size_t stride = query_bytes(a.k_type, a.k_dim), tile_bytes = kTile * kv_row_size(a.k_type, a.k_dim).code_bytes;
  if (a.n_queries <= kMostDirectQueries || std::is_same_v<Keys, KeysF32>) {
    score_tiles<Keys>(a, a.queries, stride, first, last, a.k_block + first * tile_bytes, tile_bytes, scores);
    return;
  }
  for (size_t t = first; t < last; t += kKeyTilesAtOnce) {
    const size_t n = lesser(kKeyTilesAtOnce, last - t);
    for (size_t i = 0; i < n; ++i) {
      for (size_t d = 0; d < a.k_dim; ++d) store(converted + (i * a.k_dim + d) * kTile, Keys::load(a.k_block + (t + i) * tile_bytes, d));
    }
    score_tiles<KeysF32>(a, a.queries, stride, t, t + n, reinterpret_cast<const std::byte*>(converted), a.k_dim * kTile * sizeof(float), scores);
  }
}

/// Row scales of fp8 keys, last.
void scale_scores(const AttendPiece& a, size_t first, size_t last, float* scores) {
  const uint16_t* scales = scales_of(a.k_block, a.k_type, a.k_dim);
  for (size_t t = first; t < last; ++t) {
    const F32x16 scale = mul(load_f16(scales + t * kTile), set1(256.0f));
    for (size_t i = 0; i < a.n_queries; ++i) {
      float* s = scores + i * kPiecePositions + t * kTile;
      store(s, mul(load(s), scale));
    }
  }
}

/// How the cells of a group of integer keys multiply with a query's codes.
struct KeysInt8 {
  static constexpr size_t kCellDims = 4;
  template <int Q>
  static void dot(const std::byte* cells, size_t n_cells, const std::byte* queries, size_t stride, F32x16* dots) { dot_i8<Q>(cells, n_cells, queries, stride, dots); }
};
struct KeysInt4 {
  static constexpr size_t kCellDims = 8;
  template <int Q>
  static void dot(const std::byte* cells, size_t n_cells, const std::byte* queries, size_t stride, F32x16* dots) { dot_i4<Q>(cells, n_cells, queries, stride, dots); }
};

/// Scores of all queries with tiles [first, last) of integer keys: acc = fma(float(I), D·a, acc), groups ascending.
template <typename Keys>
void integer_scores(const AttendPiece& a, size_t first, size_t last, float* scores) {
  const size_t stride = query_bytes(a.k_type, a.k_dim), tile_bytes = kTile * kv_row_size(a.k_type, a.k_dim).code_bytes;
  const uint16_t* scales = scales_of(a.k_block, a.k_type, a.k_dim);
  constexpr size_t kCellBytes = 4 * kTile;
  for_query_blocks(0, a.n_queries, [&](size_t query, auto q) {
    constexpr int kQ = decltype(q)::value;
    for (size_t t = first; t < last; ++t) {
      const std::byte* cells = a.k_block + t * tile_bytes;
      F32x16 acc[kQ];
      for (int i = 0; i < kQ; ++i) acc[i] = zero();
      for (size_t d = 0; d < a.k_dim; d += kKvGroup) {
        const size_t n_cells = (lesser(kKvGroup, a.k_dim - d) + Keys::kCellDims - 1) / Keys::kCellDims;
        const std::byte* groups = a.queries + query * stride + d / kKvGroup * sizeof(QueryGroup);
        F32x16 dots[kQ];
        Keys::template dot<kQ>(cells, n_cells, groups, stride, dots);
        const F32x16 scale = load_f16(scales + d / kKvGroup * kPiecePositions + t * kTile);
        for (int i = 0; i < kQ; ++i) acc[i] = fma(dots[i], mul(scale, set1(query_group(groups, stride, i).scale)), acc[i]);
        cells += n_cells * kCellBytes;
      }
      for (int i = 0; i < kQ; ++i) store(scores + (query + i) * kPiecePositions + t * kTile, acc[i]);
    }
  });
}

}  // namespace
}  // namespace quern::kernels::QUERN_ISA

#include "kernels/generic/attention_frame.inl"

namespace quern::kernels::QUERN_ISA {
namespace {

/// The bias of 16 positions from `offset` of a piece on: a slope times how far they are from the query.
struct DistanceBias {
  float slope, distance;
  F32x16 added_to(F32x16 score, size_t offset) const {
    alignas(64) static constexpr float kLane[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return fma(set1(slope), add(set1(distance + float(offset)), load(kLane)), score);
  }
};

/// Scales, caps and biases (where bias is not null) the dots of one query, then leaves p = exp(s − m) in their place, 0 where it does not see.
inline void softmax_row(float* s, size_t begin, size_t end, float scale, float softcap, const DistanceBias* bias, float* m, float* l) {
  const F32x16 lowest = set1(-__builtin_inff());
  const size_t first = begin / kTile, last = (end + kTile - 1) / kTile;
  F32x16 best = lowest;
  for (size_t t = first; t < last; ++t) {
    F32x16 x = mul(load(s + t * kTile), set1(scale));
    if (softcap > 0.0f) x = mul(set1(softcap), tanh16(div(x, set1(softcap))));
    if (bias) x = bias->added_to(x, t * kTile);
    if (t * kTile < begin || t * kTile + kTile > end) {
      x = select(lane_range(begin > t * kTile ? begin - t * kTile : 0, lesser(kTile, end - t * kTile)), x, lowest);
    }
    store(s + t * kTile, x);
    best = max(x, best);
  }
  *m = max_lanes(best) + 0.0f;  // no negative zero: its sign would depend on the order of equal scores
  F32x16 sum = zero();
  for (size_t t = first; t < last; ++t) {
    const F32x16 p = exp16(sub(load(s + t * kTile), set1(*m)));
    store(s + t * kTile, p);
    sum = add(sum, p);
  }
  *l = sum_lanes(sum);
}

// ---- values ----------------------------------------------------------------------------------------------------------------

/// Rows of V as vectors of 16 dimensions; `first` is the position of the row at `rows`.
struct ValuesF32 {
  const std::byte* rows;
  size_t row_bytes;
  size_t first;
  F32x16 load(size_t position, size_t vector) const { return quern::kernels::QUERN_ISA::load(reinterpret_cast<const float*>(rows + (position - first) * row_bytes) + vector * 16); }
};
struct ValuesF16 {
  const std::byte* rows;
  size_t row_bytes;
  F32x16 load(size_t position, size_t vector) const { return load_f16(reinterpret_cast<const uint16_t*>(rows + position * row_bytes) + vector * 16); }
};
struct ValuesBF16 {
  const std::byte* rows;
  size_t row_bytes;
  F32x16 load(size_t position, size_t vector) const { return load_bf16(reinterpret_cast<const uint16_t*>(rows + position * row_bytes) + vector * 16); }
};

struct ValuesFp8 {
  const std::byte* rows;
  size_t row_bytes;
  const float* scales;  // [256], times 256
  F32x16 load(size_t position, size_t vector) const {
    return mul(load_e4m3(reinterpret_cast<const uint8_t*>(rows + position * row_bytes) + vector * 16), set1(scales[position]));
  }
};
struct ValuesInt8 {
  const std::byte* rows;
  size_t row_bytes;
  const float* scales;  // [group][256]
  F32x16 load(size_t position, size_t vector) const {
    return mul(load_i8(reinterpret_cast<const int8_t*>(rows + position * row_bytes) + vector * 16), set1(scales[vector / 2 * kPiecePositions + position]));
  }
};
struct ValuesInt4 {
  const std::byte* rows;
  size_t row_bytes;
  const float* scales;  // [group][256]
  size_t n_whole;       // groups of 32
  size_t half;          // bytes of the short last one
  F32x16 load(size_t position, size_t vector) const {
    const size_t group = vector / 2;
    const uint8_t* p = reinterpret_cast<const uint8_t*>(rows + position * row_bytes) + group * (kKvGroup / 2);
    F32x16 codes;
    if (group < n_whole) {
      codes = vector % 2 ? load_high_nibbles(p) : load_low_nibbles(p);
    } else {
      float unpacked[2 * kKvGroup] = {};
      for (size_t i = 0; i < half; ++i) {
        unpacked[i] = float(p[i] & 15);
        unpacked[half + i] = float(p[i] >> 4);
      }
      codes = quern::kernels::QUERN_ISA::load(unpacked + vector % 2 * 16);
    }
    return mul(sub(codes, set1(8.0f)), set1(scales[group * kPiecePositions + position]));
  }
};

/// Scales of V rows [begin, end) as floats, [group][256].
void convert_scales(const AttendPiece& a, size_t begin, size_t end, float factor, float* out) {
  const uint16_t* scales = scales_of(a.v_block, a.v_type, a.v_dim);
  for (size_t group = 0; group < kv_scale_groups(a.v_type, a.v_dim); ++group) {
    for (size_t p = begin / 16 * 16; p < end; p += 16) store(out + group * kPiecePositions + p, mul(load_f16(scales + group * kPiecePositions + p), set1(factor)));
  }
}

/// o[q][N vectors] += Σ p[q][position]·v[position] over [begin, end), ascending.
template <int Q, int N, typename Values>
inline void value_block(const Values& values, size_t vector, size_t begin, size_t end, const float* p, float* o, size_t o_stride) {
  F32x16 acc[Q][N];
  for (int i = 0; i < Q; ++i) {
    for (int n = 0; n < N; ++n) acc[i][n] = load(o + i * o_stride + n * 16);
  }
  for (size_t position = begin; position < end; ++position) {
    F32x16 v[N];
    for (int n = 0; n < N; ++n) v[n] = values.load(position, vector + n);
    for (int i = 0; i < Q; ++i) {
      const F32x16 weight = set1(p[i * kPiecePositions + position]);
      for (int n = 0; n < N; ++n) acc[i][n] = fma(weight, v[n], acc[i][n]);
    }
  }
  for (int i = 0; i < Q; ++i) {
    for (int n = 0; n < N; ++n) store(o + i * o_stride + n * 16, acc[i][n]);
  }
}

template <int Q, typename Values>
inline void value_rows(const AttendPiece& a, const Values& values, size_t query, size_t begin, size_t end, const float* p) {
  if (begin >= end) return;
  for_vector_blocks<block_vectors(Q)>(0, (a.v_dim + 15) / 16, [&](size_t vector, auto n) {
    value_block<Q, decltype(n)::value>(values, vector, begin, end, p + query * kPiecePositions, a.o + query * a.o_stride + vector * 16, a.o_stride);
  });
}

/// Positions [begin, end) for every query: those that all of a block see together, those before and after query by query.
template <typename Values>
void value_positions(const AttendPiece& a, const Values& values, size_t begin, size_t end, const float* p) {
  for_query_blocks(0, a.n_queries, [&](size_t first, auto q) {
    constexpr int kQ = decltype(q)::value;
    size_t common_begin = begin, common_end = end;
    for (size_t i = first; i < first + kQ; ++i) {
      common_begin = larger(common_begin, size_t(a.begin[i]));
      common_end = lesser(common_end, size_t(a.end[i]));
    }
    if (common_begin >= common_end) common_begin = common_end = end;
    for (size_t i = first; i < first + kQ; ++i) value_rows<1>(a, values, i, larger(begin, size_t(a.begin[i])), lesser(common_begin, size_t(a.end[i])), p);
    value_rows<kQ>(a, values, first, common_begin, common_end, p);
    for (size_t i = first; i < first + kQ; ++i) value_rows<1>(a, values, i, larger(common_end, size_t(a.begin[i])), lesser(end, size_t(a.end[i])), p);
  });
}

template <typename Values>
void sum_values(const AttendPiece& a, const Values& values, size_t begin, size_t end, const float* p, float* converted) {
  const size_t n_vectors = (a.v_dim + 15) / 16;
  for (size_t b = begin; b < end; b += kValueRowsAtOnce) {
    const size_t e = lesser(end, b + kValueRowsAtOnce);
    if (a.n_queries <= kMostDirectQueries) {
      value_positions(a, values, b, e, p);
      continue;
    }
    for (size_t position = b; position < e; ++position) {
      for (size_t n = 0; n < n_vectors; ++n) store(converted + ((position - b) * n_vectors + n) * 16, values.load(position, n));
    }
    value_positions(a, ValuesF32{reinterpret_cast<const std::byte*>(converted), n_vectors * 16 * sizeof(float), b}, b, e, p);
  }
}

}  // namespace
}  // namespace quern::kernels::QUERN_ISA

#include "kernels/generic/attention_key_values.inl"

namespace quern::kernels::QUERN_ISA {
namespace {

// ---- one piece ---------------------------------------------------------------------------------------------------------------

void attend(const AttendPiece& a) {
  float* scores = reinterpret_cast<float*>(a.scratch);
  float* scales = scores + a.n_queries * kPiecePositions;
  float* converted = scales + kv_scale_groups(a.v_type, a.v_block ? a.v_dim : a.k_dim) * kPiecePositions;
  size_t begin = kPiecePositions, end = 0;
  for (size_t i = 0; i < a.n_queries; ++i) {
    begin = lesser(begin, size_t(a.begin[i]));
    end = larger(end, size_t(a.end[i]));
  }
  const bool sees_head = a.frame && a.frame->head_keys && begin < kHeadPositions;
  const size_t last = (end + kTile - 1) / kTile, first = sees_head ? kHeadPositions / kTile : begin / kTile;
  switch (a.k_type) {
    case KvType::kF32: float_scores<KeysF32>(a, first, last, scores, converted); break;
    case KvType::kF16: float_scores<KeysF16>(a, first, last, scores, converted); break;
    case KvType::kBF16: float_scores<KeysBF16>(a, first, last, scores, converted); break;
    case KvType::kFp8:
      float_scores<KeysFp8>(a, first, last, scores, converted);
      scale_scores(a, first, last, scores);
      break;
    case KvType::kInt8: integer_scores<KeysInt8>(a, first, last, scores); break;
    case KvType::kInt4: integer_scores<KeysInt4>(a, first, last, scores); break;
  }
  if (a.frame && first < last) add_frame(a, first, last, scores, converted);
  if (sees_head) {
    const size_t stride = query_bytes(a.k_type, a.k_dim);
    score_tiles<KeysF16>(a, a.queries + query_float_offset(a.k_type, a.k_dim), stride, 0, 1, reinterpret_cast<const std::byte*>(a.frame->head_keys), 0, scores);
  }
  for (size_t i = 0; i < a.n_queries; ++i) {
    const DistanceBias bias = a.slopes ? DistanceBias{a.slopes[i], a.distances[i]} : DistanceBias{};
    softmax_row(scores + i * kPiecePositions, a.begin[i], a.end[i], a.scale, a.softcap, a.slopes ? &bias : nullptr, a.m + i, a.l + i);
    for (size_t d = 0; d < a.v_dim; d += 16) store(a.o + i * a.o_stride + d, zero());
  }
  if (!a.v_block) return sum_values_in_keys(a, begin, end, scores, scales, converted);
  const size_t row_bytes = kv_row_size(a.v_type, a.v_dim).code_bytes;
  switch (a.v_type) {
    case KvType::kF32: sum_values(a, ValuesF32{a.v_block, row_bytes, 0}, begin, end, scores, converted); break;
    case KvType::kF16: sum_values(a, ValuesF16{a.v_block, row_bytes}, begin, end, scores, converted); break;
    case KvType::kBF16: sum_values(a, ValuesBF16{a.v_block, row_bytes}, begin, end, scores, converted); break;
    case KvType::kFp8:
      convert_scales(a, begin, end, 256.0f, scales);
      sum_values(a, ValuesFp8{a.v_block, row_bytes, scales}, begin, end, scores, converted);
      break;
    case KvType::kInt8:
      convert_scales(a, begin, end, 1.0f, scales);
      sum_values(a, ValuesInt8{a.v_block, row_bytes, scales}, begin, end, scores, converted);
      break;
    case KvType::kInt4:
      convert_scales(a, begin, end, 1.0f, scales);
      sum_values(a, ValuesInt4{a.v_block, row_bytes, scales, a.v_dim / kKvGroup, (a.v_dim % kKvGroup + 7) / 8 * 4}, begin, end, scores, converted);
      break;
  }
}

void merge(float* m, float* l, float* o, float mp, float lp, const float* op, size_t v_dim) {
  const float top = *m > mp ? *m : mp;
  const float x = exp1(*m - top), y = exp1(mp - top);
  *m = top;
  *l = __builtin_fmaf(lp, y, *l * x);
  const F32x16 old_factor = set1(x), new_factor = set1(y);
  size_t d = 0;
  for (; d + 16 <= v_dim; d += 16) store(o + d, fma(load(op + d), new_factor, mul(load(o + d), old_factor)));
  if (d < v_dim) store_tail(o + d, fma(load_tail(op + d, v_dim - d), new_factor, mul(load_tail(o + d, v_dim - d), old_factor)), v_dim - d);
}

// ---- rows ------------------------------------------------------------------------------------------------------------------

/// Calls f(offset, count, 16 halves) along a row.
template <typename F>
inline void for_halves(const float* row, size_t dim, F f) {
  for (size_t d = 0; d < dim; d += 16) {
    const size_t n = lesser(size_t(16), dim - d);
    uint16_t halves[16];
    store_f16(halves, n == 16 ? load(row + d) : load_tail(row + d, n));
    f(d, n, halves);
  }
}

void store_k(KvType type, const float* row, size_t dim, std::byte* block, size_t position) {
  if (type != KvType::kF16) return kv_store_k(type, row, dim, block, position);
  uint16_t* out = reinterpret_cast<uint16_t*>(block) + position / kTile * kTile * dim + position % kTile;
  for_halves(row, dim, [&](size_t d, size_t n, const uint16_t* halves) {
    for (size_t i = 0; i < n; ++i) out[(d + i) * kTile] = halves[i];
  });
}

void store_v(KvType type, const float* row, size_t dim, std::byte* block, size_t position) {
  if (type != KvType::kF16) return kv_store_v(type, row, dim, block, position);
  uint16_t* out = reinterpret_cast<uint16_t*>(block) + position * dim;
  for_halves(row, dim, [&](size_t d, size_t n, const uint16_t* halves) { std::memcpy(out + d, halves, n * sizeof(uint16_t)); });
}

void prepare_query(KvType k_type, const float* q, size_t dim, std::byte* prepared) {
  if (!kv_type_has_integer_scores(k_type)) {
    std::memcpy(prepared, q, dim * sizeof(float));
    return;
  }
  QueryGroup* groups = reinterpret_cast<QueryGroup*>(prepared);
  for (size_t d = 0; d < dim; d += kKvGroup) {
    QueryGroup& group = groups[d / kKvGroup];
    ActGroup act;
    if (!matmul_kernels()->quantize_row(q + d, lesser(kKvGroup, dim - d), group.codes, &act)) {
      group = {};
      group.scale = __builtin_nanf("");  // so that the fault shows in every score
      continue;
    }
    group.scale = act.scale;
    group.sum = act.sums[0] + act.sums[1];
  }
}

}  // namespace

const AttentionKernels* attention_kernels() {
  static const AttentionKernels table = {store_k, store_v, kv_load_k, kv_load_v, prepare_query, attend, merge};
  return &table;
}

}  // namespace quern::kernels::QUERN_ISA
