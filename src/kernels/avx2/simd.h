// The vocabulary of 16 virtual lanes in two AVX2 registers.
// Included only by the stubs of this folder; everything has internal linkage.
#pragma once
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#define QUERN_ISA avx2

namespace quern::kernels::avx2 {
namespace {

struct F32x16 { __m256 lo, hi; };
struct Mask16 { __m256 lo, hi; };

inline F32x16 set1(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline F32x16 zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
inline F32x16 load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
/// Lanes [begin, end).
inline Mask16 lane_range(size_t begin, size_t end) {
  const __m256i lane_lo = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), lane_hi = _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15);
  const __m256i b = _mm256_set1_epi32(int(begin) - 1), e = _mm256_set1_epi32(int(end));
  const auto inside = [&](__m256i lane) { return _mm256_castsi256_ps(_mm256_and_si256(_mm256_cmpgt_epi32(lane, b), _mm256_cmpgt_epi32(e, lane))); };
  return {inside(lane_lo), inside(lane_hi)};
}
inline F32x16 load_tail(const float* p, size_t n) {
  const Mask16 m = lane_range(0, n);
  return {_mm256_maskload_ps(p, _mm256_castps_si256(m.lo)), _mm256_maskload_ps(p + 8, _mm256_castps_si256(m.hi))};
}
inline F32x16 load_f16(const uint16_t* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))), _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
}
inline F32x16 load_bf16(const uint16_t* p) {
  const auto widen = [](const uint16_t* q) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(q))), 16)); };
  return {widen(p), widen(p + 8)};
}
inline F32x16 load_i8(const int8_t* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)), _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8)))};
}
inline void store(float* p, F32x16 a) { _mm256_storeu_ps(p, a.lo); _mm256_storeu_ps(p + 8, a.hi); }
inline void store_tail(float* p, F32x16 a, size_t n) {
  const Mask16 m = lane_range(0, n);
  _mm256_maskstore_ps(p, _mm256_castps_si256(m.lo), a.lo);
  _mm256_maskstore_ps(p + 8, _mm256_castps_si256(m.hi), a.hi);
}
inline void store_f16(uint16_t* p, F32x16 a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(a.lo, _MM_FROUND_TO_NEAREST_INT));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8), _mm256_cvtps_ph(a.hi, _MM_FROUND_TO_NEAREST_INT));
}
inline F32x16 add(F32x16 a, F32x16 b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
inline F32x16 sub(F32x16 a, F32x16 b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
inline F32x16 mul(F32x16 a, F32x16 b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
inline F32x16 div(F32x16 a, F32x16 b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
/// a·b + c, rounded once.
inline F32x16 fma(F32x16 a, F32x16 b, F32x16 c) { return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)}; }
/// c − a·b, rounded once.
inline F32x16 fnma(F32x16 a, F32x16 b, F32x16 c) { return {_mm256_fnmadd_ps(a.lo, b.lo, c.lo), _mm256_fnmadd_ps(a.hi, b.hi, c.hi)}; }
inline F32x16 max(F32x16 a, F32x16 b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
inline F32x16 min(F32x16 a, F32x16 b) { return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }
inline Mask16 less(F32x16 a, F32x16 b) { return {_mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ)}; }
/// a where the mask is set, else b.
inline F32x16 select(Mask16 m, F32x16 a, F32x16 b) { return {_mm256_blendv_ps(b.lo, a.lo, m.lo), _mm256_blendv_ps(b.hi, a.hi, m.hi)}; }
/// 2^n for the whole number that `shifted` holds as n + 1.5·2^23 (|n| ≤ 127).
inline F32x16 exp2_of_shifted(F32x16 shifted) {
  const auto half = [](__m256 x) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_castps_si256(x), _mm256_set1_epi32(127)), 23)); };
  return {half(shifted.lo), half(shifted.hi)};
}
/// The fixed tree: 16 to 8 to 4 to 2 to 1, lane i with lane i + half.
inline float sum_lanes(F32x16 a) {
  const __m256 t8 = _mm256_add_ps(a.lo, a.hi);
  const __m128 t4 = _mm_add_ps(_mm256_castps256_ps128(t8), _mm256_extractf128_ps(t8, 1));
  const __m128 t2 = _mm_add_ps(t4, _mm_movehl_ps(t4, t4));
  return _mm_cvtss_f32(_mm_add_ss(t2, _mm_movehdup_ps(t2)));
}
inline float max_lanes(F32x16 a) {
  const __m256 t8 = _mm256_max_ps(a.lo, a.hi);
  const __m128 t4 = _mm_max_ps(_mm256_castps256_ps128(t8), _mm256_extractf128_ps(t8, 1));
  const __m128 t2 = _mm_max_ps(t4, _mm_movehl_ps(t4, t4));
  return _mm_cvtss_f32(_mm_max_ss(t2, _mm_movehdup_ps(t2)));
}
/// Bits without sign at or above those of infinity in any lane.
inline bool any_nonfinite(F32x16 a) {
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff), largest = _mm256_set1_epi32(0x7f7fffff);
  const auto bad = [&](__m256 x) { return _mm256_cmpgt_epi32(_mm256_and_si256(_mm256_castps_si256(x), magnitude), largest); };
  return _mm256_movemask_epi8(_mm256_or_si256(bad(a.lo), bad(a.hi))) != 0;
}
inline float sqrt_f32(float x) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }

}  // namespace
}  // namespace quern::kernels::avx2
