// The vocabulary of 16 virtual lanes, spelled out as loops: what the SIMD folders must equal bit for bit.
// Included only by the stubs of this folder; everything has internal linkage.
#pragma once
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/fp.h"

#define QUERN_ISA scalar

namespace quern::kernels::scalar {
namespace {

struct F32x16 { float v[16]; };
struct Mask16 { uint16_t bits; };

template <typename F>
inline F32x16 lanes(F f) {
  F32x16 r;
  for (int i = 0; i < 16; ++i) r.v[i] = f(i);
  return r;
}

inline F32x16 set1(float x) { return lanes([&](int) { return x; }); }
inline F32x16 zero() { return set1(0.0f); }
inline F32x16 load(const float* p) { return lanes([&](int i) { return p[i]; }); }
inline F32x16 load_tail(const float* p, size_t n) { return lanes([&](int i) { return size_t(i) < n ? p[i] : 0.0f; }); }
inline F32x16 load_f16(const uint16_t* p) { return lanes([&](int i) { return f16_to_f32(p[i]); }); }
inline F32x16 load_bf16(const uint16_t* p) { return lanes([&](int i) { return bf16_to_f32(p[i]); }); }
inline F32x16 load_i8(const int8_t* p) { return lanes([&](int i) { return float(p[i]); }); }
inline void store(float* p, F32x16 a) { std::memcpy(p, a.v, sizeof a.v); }
inline void store_tail(float* p, F32x16 a, size_t n) { std::memcpy(p, a.v, n * sizeof(float)); }
inline void store_f16(uint16_t* p, F32x16 a) { for (int i = 0; i < 16; ++i) p[i] = f32_to_f16(a.v[i]); }
inline F32x16 add(F32x16 a, F32x16 b) { return lanes([&](int i) { return a.v[i] + b.v[i]; }); }
inline F32x16 sub(F32x16 a, F32x16 b) { return lanes([&](int i) { return a.v[i] - b.v[i]; }); }
inline F32x16 mul(F32x16 a, F32x16 b) { return lanes([&](int i) { return a.v[i] * b.v[i]; }); }
inline F32x16 div(F32x16 a, F32x16 b) { return lanes([&](int i) { return a.v[i] / b.v[i]; }); }
/// a·b + c, rounded once.
inline F32x16 fma(F32x16 a, F32x16 b, F32x16 c) { return lanes([&](int i) { return __builtin_fmaf(a.v[i], b.v[i], c.v[i]); }); }
/// c − a·b, rounded once.
inline F32x16 fnma(F32x16 a, F32x16 b, F32x16 c) { return lanes([&](int i) { return __builtin_fmaf(-a.v[i], b.v[i], c.v[i]); }); }
/// a where a > b, else b (b where either is NaN), as the instruction does.
inline F32x16 max(F32x16 a, F32x16 b) { return lanes([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; }); }
inline F32x16 min(F32x16 a, F32x16 b) { return lanes([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; }); }
inline Mask16 less(F32x16 a, F32x16 b) {
  Mask16 m{0};
  for (int i = 0; i < 16; ++i) m.bits = uint16_t(m.bits | (a.v[i] < b.v[i] ? 1 << i : 0));
  return m;
}
/// Lanes [begin, end).
inline Mask16 lane_range(size_t begin, size_t end) { return {uint16_t((end >= 16 ? 0xffffu : (1u << end) - 1) & ~((begin >= 16 ? 0x10000u : (1u << begin)) - 1))}; }
/// a where the mask is set, else b.
inline F32x16 select(Mask16 m, F32x16 a, F32x16 b) { return lanes([&](int i) { return m.bits >> i & 1 ? a.v[i] : b.v[i]; }); }
/// 2^n for the whole number that `shifted` holds as n + 1.5·2^23 (|n| ≤ 127).
inline F32x16 exp2_of_shifted(F32x16 shifted) { return lanes([&](int i) { return std::bit_cast<float>((std::bit_cast<uint32_t>(shifted.v[i]) + 127u) << 23); }); }
/// The fixed tree: 16 to 8 to 4 to 2 to 1, lane i with lane i + half.
inline float sum_lanes(F32x16 a) {
  for (int half = 8; half; half /= 2) for (int i = 0; i < half; ++i) a.v[i] = a.v[i] + a.v[i + half];
  return a.v[0];
}
inline float max_lanes(F32x16 a) {
  for (int half = 8; half; half /= 2) for (int i = 0; i < half; ++i) a.v[i] = a.v[i] > a.v[i + half] ? a.v[i] : a.v[i + half];
  return a.v[0];
}
/// Bits without sign at or above those of infinity in any lane.
inline bool any_nonfinite(F32x16 a) {
  for (float x : a.v) if ((std::bit_cast<uint32_t>(x) & 0x7fffffffu) >= 0x7f800000u) return true;
  return false;
}
inline float sqrt_f32(float x) { return __builtin_sqrtf(x); }

}  // namespace
}  // namespace quern::kernels::scalar
