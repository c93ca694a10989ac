// The vocabulary of 16 virtual lanes in one AVX-512 register.
// Included only by the stubs of this folder; everything has internal linkage.
#pragma once
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#define QUERN_ISA avx512

namespace quern::kernels::avx512 {
namespace {

struct F32x16 { __m512 v; };
struct Mask16 { __mmask16 m; };

inline F32x16 set1(float x) { return {_mm512_set1_ps(x)}; }
inline F32x16 zero() { return {_mm512_setzero_ps()}; }
inline F32x16 load(const float* p) { return {_mm512_loadu_ps(p)}; }
/// Lanes [begin, end).
inline Mask16 lane_range(size_t begin, size_t end) { return {__mmask16((end >= 16 ? 0xffffu : (1u << end) - 1) & ~((begin >= 16 ? 0x10000u : (1u << begin)) - 1))}; }
inline F32x16 load_tail(const float* p, size_t n) { return {_mm512_maskz_loadu_ps(lane_range(0, n).m, p)}; }
inline F32x16 load_f16(const uint16_t* p) { return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))}; }
inline F32x16 load_bf16(const uint16_t* p) { return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))), 16))}; }
inline F32x16 load_i8(const int8_t* p) { return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))))}; }
inline void store(float* p, F32x16 a) { _mm512_storeu_ps(p, a.v); }
inline void store_tail(float* p, F32x16 a, size_t n) { _mm512_mask_storeu_ps(p, lane_range(0, n).m, a.v); }
inline void store_f16(uint16_t* p, F32x16 a) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT)); }
inline F32x16 add(F32x16 a, F32x16 b) { return {_mm512_add_ps(a.v, b.v)}; }
inline F32x16 sub(F32x16 a, F32x16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline F32x16 mul(F32x16 a, F32x16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline F32x16 div(F32x16 a, F32x16 b) { return {_mm512_div_ps(a.v, b.v)}; }
/// a·b + c, rounded once.
inline F32x16 fma(F32x16 a, F32x16 b, F32x16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
/// c − a·b, rounded once.
inline F32x16 fnma(F32x16 a, F32x16 b, F32x16 c) { return {_mm512_fnmadd_ps(a.v, b.v, c.v)}; }
inline F32x16 max(F32x16 a, F32x16 b) { return {_mm512_max_ps(a.v, b.v)}; }
inline F32x16 min(F32x16 a, F32x16 b) { return {_mm512_min_ps(a.v, b.v)}; }
inline Mask16 less(F32x16 a, F32x16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
/// a where the mask is set, else b.
inline F32x16 select(Mask16 m, F32x16 a, F32x16 b) { return {_mm512_mask_blend_ps(m.m, b.v, a.v)}; }
/// 2^n for the whole number that `shifted` holds as n + 1.5·2^23 (|n| ≤ 127).
inline F32x16 exp2_of_shifted(F32x16 shifted) { return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(_mm512_castps_si512(shifted.v), _mm512_set1_epi32(127)), 23))}; }
/// The fixed tree: 16 to 8 to 4 to 2 to 1, lane i with lane i + half.
inline float sum_lanes(F32x16 a) {
  const __m256 t8 = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 t4 = _mm_add_ps(_mm256_castps256_ps128(t8), _mm256_extractf128_ps(t8, 1));
  const __m128 t2 = _mm_add_ps(t4, _mm_movehl_ps(t4, t4));
  return _mm_cvtss_f32(_mm_add_ss(t2, _mm_movehdup_ps(t2)));
}
inline float max_lanes(F32x16 a) {
  const __m256 t8 = _mm256_max_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 t4 = _mm_max_ps(_mm256_castps256_ps128(t8), _mm256_extractf128_ps(t8, 1));
  const __m128 t2 = _mm_max_ps(t4, _mm_movehl_ps(t4, t4));
  return _mm_cvtss_f32(_mm_max_ss(t2, _mm_movehdup_ps(t2)));
}
/// Bits without sign at or above those of infinity in any lane.
inline bool any_nonfinite(F32x16 a) {
  const __m512i magnitude = _mm512_and_si512(_mm512_castps_si512(a.v), _mm512_set1_epi32(0x7fffffff));
  return _mm512_cmpgt_epi32_mask(magnitude, _mm512_set1_epi32(0x7f7fffff)) != 0;
}
inline float sqrt_f32(float x) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }

}  // namespace
}  // namespace quern::kernels::avx512
