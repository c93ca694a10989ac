// Plain code for every instruction set: a frame is made once a sequence, and a row passes through it once.
#include "quant/kv_frame.h"

#include <algorithm>
#include <cstring>

#include "base/fp.h"
#include "base/rounding.h"

namespace quern {
namespace {

constexpr float kRegular = 0.02f;  // of the mean square: keeps the scales of idle dimensions bounded

float square_root(float x) { return __builtin_sqrtf(x); }

/// A mean of this energy, in units of the key's average spread in a pair, is worth its term in every score. Coarser codes gain sooner.
float worthwhile(KvType type) { return type == KvType::kInt4 ? 2.0f : type == KvType::kFp8 ? 4.0f : 16.0f; }

struct Pair {
  float first, second;
};

/// R(p)·mean of one pair.
Pair turned_mean(const KeyFrame& frame, const KeyTurn& turn, size_t pair, float cosine, float sine) {
  const float a = frame.mean[turn.first(pair)], b = frame.mean[turn.second(pair)];
  return {a * cosine - b * sine, a * sine + b * cosine};
}

/// Calls f(dimension, R(p)·mean there) for every dimension that has a mean.
template <typename F>
void for_mean(const KeyFrame& frame, size_t dim, const KeyTurn& turn, const float* angles, size_t offset, F f) {
  for (size_t d = 2 * turn.n_pairs; d < dim; ++d) f(d, frame.mean[d]);
  for (size_t i = 0; i < *frame.n_pairs; ++i) {
    const size_t pair = frame.pairs[i];
    const float c0 = angles[2 * pair], s0 = angles[2 * pair + 1], c = turn.cosine(pair, offset), s = turn.sine(pair, offset);
    const Pair m = turned_mean(frame, turn, pair, c0 * c - s0 * s, s0 * c + c0 * s);
    f(turn.first(pair), m.first);
    f(turn.second(pair), m.second);
  }
}

/// Mean of the values of both dimensions of each pair: turning mixes them.
void average_pairs(const KeyTurn& turn, float* x) {
  for (size_t pair = 0; pair < turn.n_pairs; ++pair) {
    const float mean = 0.5f * (x[turn.first(pair)] + x[turn.second(pair)]);
    x[turn.first(pair)] = x[turn.second(pair)] = mean;
  }
}

float mean_of(const float* x, size_t n) {
  float sum = 0.0f;
  for (size_t i = 0; i < n; ++i) sum += x[i];
  return sum / float(n);
}

}  // namespace

bool kv_type_is_framed(KvType type) { return type == KvType::kInt8 || type == KvType::kFp8 || type == KvType::kInt4; }

size_t kv_frame_bytes(KvType k_type, size_t dim) {
  if (!kv_type_is_framed(k_type) || dim == 0) return 0;
  return 2 * round_up(kHeadPositions * dim * sizeof(uint16_t), 64) + 3 * round_up(dim * sizeof(float), 64) + round_up((1 + dim / 2) * sizeof(uint16_t), 64);
}

KeyFrame kv_frame_at(std::byte* bytes, size_t dim) {
  const size_t rows = round_up(kHeadPositions * dim * sizeof(uint16_t), 64), floats = round_up(dim * sizeof(float), 64);
  KeyFrame f;
  f.keys = reinterpret_cast<uint16_t*>(bytes);
  f.query_squares = reinterpret_cast<uint16_t*>(bytes + rows);
  f.mean = reinterpret_cast<float*>(bytes + 2 * rows);
  f.to_stored = reinterpret_cast<float*>(bytes + 2 * rows + floats);
  f.to_query = reinterpret_cast<float*>(bytes + 2 * rows + 2 * floats);
  f.n_pairs = reinterpret_cast<uint16_t*>(bytes + 2 * rows + 3 * floats);
  f.pairs = f.n_pairs + 1;
  return f;
}

void kv_frame_add(const KeyFrame& frame, size_t dim, size_t position, const float* key, const float* queries, size_t n_queries) {
  for (size_t d = 0; d < dim; ++d) {
    frame.keys[d * kHeadPositions + position] = f32_to_f16(key[d]);
    float squares = 0.0f;
    for (size_t i = 0; i < n_queries; ++i) squares += queries[i * dim + d] * queries[i * dim + d];
    frame.query_squares[position * dim + d] = f32_to_bf16(squares);
  }
}

void kv_frame_complete(const KeyFrame& frame, KvType k_type, size_t dim, const KeyTurn& turn) {
  // The first position does not count: its key is often like no other (attention sink).
  constexpr float kCount = float(kHeadPositions - 1);
  const auto key = [&](size_t d, size_t position) { return f16_to_f32(frame.keys[d * kHeadPositions + position]); };
  std::fill_n(frame.mean, dim, 0.0f);
  float* const spread = frame.to_stored;  // until the scales are known
  float* const looked = frame.to_query;
  std::fill_n(spread, dim, 0.0f);
  std::fill_n(looked, dim, 0.0f);
  for (size_t p = 1; p < kHeadPositions; ++p) {
    for (size_t pair = 0; pair < turn.n_pairs; ++pair) {
      const float a = key(turn.first(pair), p), b = key(turn.second(pair), p), c = turn.cosine(pair, p), s = turn.sine(pair, p);
      frame.mean[turn.first(pair)] += a * c + b * s;
      frame.mean[turn.second(pair)] += b * c - a * s;
    }
    for (size_t d = 2 * turn.n_pairs; d < dim; ++d) frame.mean[d] += key(d, p);
    for (size_t d = 0; d < dim; ++d) looked[d] += bf16_to_f32(frame.query_squares[p * dim + d]);
  }
  for (size_t d = 0; d < dim; ++d) frame.mean[d] /= kCount;
  for (size_t p = 1; p < kHeadPositions; ++p) {
    const auto add = [&](size_t d, float mean) {
      const float rest = key(d, p) - mean;
      spread[d] += rest * rest / kCount;
    };
    for (size_t pair = 0; pair < turn.n_pairs; ++pair) {
      const Pair m = turned_mean(frame, turn, pair, turn.cosine(pair, p), turn.sine(pair, p));
      add(turn.first(pair), m.first);
      add(turn.second(pair), m.second);
    }
    for (size_t d = 2 * turn.n_pairs; d < dim; ++d) add(d, frame.mean[d]);
  }
  average_pairs(turn, spread);
  average_pairs(turn, looked);

  // Codes err in proportion to the stored value, scores in proportion to the query: √(spread/looked) balances the two.
  const float mean_spread = mean_of(spread, dim), mean_looked = mean_of(looked, dim);
  float scaled_spread = 0.0f;
  for (size_t d = 0; d < dim; ++d) {
    const float s = spread[d] + kRegular * mean_spread, q = looked[d] + kRegular * mean_looked;
    float scale = square_root(square_root(s / q));
    if (!(scale >= 0x1p-20f && scale <= 0x1p20f)) scale = 1.0f;  // no key or no query is different from zero, or one is not finite
    scaled_spread += spread[d] / (scale * scale);
    frame.to_query[d] = scale;
    frame.to_stored[d] = 1.0f / scale;
  }
  const float threshold = worthwhile(k_type) * 2.0f * scaled_spread / float(dim);
  const auto energy = [&](size_t d) { return frame.mean[d] * frame.to_stored[d] * (frame.mean[d] * frame.to_stored[d]); };
  *frame.n_pairs = 0;
  for (size_t pair = 0; pair < turn.n_pairs; ++pair) {
    const size_t a = turn.first(pair), b = turn.second(pair);
    if (energy(a) + energy(b) > threshold) frame.pairs[(*frame.n_pairs)++] = uint16_t(pair);
    else frame.mean[a] = frame.mean[b] = 0.0f;
  }
}

void kv_frame_remove(const KeyFrame& frame, size_t dim, const KeyTurn& turn, const float* angles, size_t offset, float* key) {
  for_mean(frame, dim, turn, angles, offset, [&](size_t d, float mean) { key[d] -= mean; });
  for (size_t d = 0; d < dim; ++d) key[d] *= frame.to_stored[d];
}

void kv_frame_restore(const KeyFrame& frame, size_t dim, const KeyTurn& turn, const float* angles, size_t offset, float* key) {
  for (size_t d = 0; d < dim; ++d) key[d] *= frame.to_query[d];
  for_mean(frame, dim, turn, angles, offset, [&](size_t d, float mean) { key[d] += mean; });
}

void kv_frame_query_terms(const KeyFrame& frame, size_t dim, const KeyTurn& turn, const float* query, float* constant, float* a, float* b) {
  float sum = 0.0f;
  for (size_t d = 2 * turn.n_pairs; d < dim; ++d) sum += query[d] * frame.mean[d];
  *constant = sum;
  for (size_t i = 0; i < *frame.n_pairs; ++i) {
    const size_t first = turn.first(frame.pairs[i]), second = turn.second(frame.pairs[i]);
    const float q1 = query[first], q2 = query[second], m1 = frame.mean[first], m2 = frame.mean[second];
    a[i] = q1 * m1 + q2 * m2;
    b[i] = q2 * m1 - q1 * m2;
  }
}

}  // namespace quern
