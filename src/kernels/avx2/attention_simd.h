// What attention needs beyond the common vocabulary: 8- and 4-bit codes, and the size of its register blocks
// (12 of the 16 registers accumulate).
#pragma once
#include "kernels/kernels.h"
#include "kernels/avx2/simd.h"

namespace quern::kernels::avx2 {
namespace {

/// Queries of the largest block, and the vectors that go with a block of so many queries.
inline constexpr int kMostBlockQueries = 6;
inline constexpr int block_vectors(int queries) { return queries == 1 ? 4 : queries <= 3 ? 2 : 1; }

/// 16 codes of E4M3, divided by 256 (the difference of its exponent bias to that of f16).
inline F32x16 load_e4m3(const uint8_t* p) {
  const __m256i wide = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  const __m256i halves = _mm256_and_si256(_mm256_slli_epi16(wide, 7), _mm256_set1_epi16(short(0xbfff)));
  return {_mm256_cvtph_ps(_mm256_castsi256_si128(halves)), _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1))};
}
inline F32x16 widen_u8(__m128i bytes) {
  return {_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes)), _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8)))};
}
/// Low or high nibbles of 16 bytes.
inline F32x16 load_low_nibbles(const uint8_t* p) { return widen_u8(_mm_and_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)), _mm_set1_epi8(15))); }
inline F32x16 load_high_nibbles(const uint8_t* p) {
  return widen_u8(_mm_and_si128(_mm_srli_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)), 4), _mm_set1_epi8(15)));
}

inline const QueryGroup& query_group(const std::byte* queries, size_t stride, int i) { return *reinterpret_cast<const QueryGroup*>(queries + i * stride); }
/// 4 codes of a query in every lane.
inline __m256i quad(const QueryGroup& q, size_t first) {
  int32_t codes;
  __builtin_memcpy(&codes, q.codes + first, sizeof codes);
  return _mm256_set1_epi32(codes);
}

/// dots[i] = Σ of the codes of 16 positions (cells of 4 dimensions) times those of query group i, as float.
template <int Q>
inline void dot_i8(const std::byte* cells, size_t n_cells, const std::byte* queries, size_t stride, F32x16* dots) {
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i sum[2][Q];
  for (int half = 0; half < 2; ++half) {
    for (int i = 0; i < Q; ++i) sum[half][i] = _mm256_setzero_si256();
    for (size_t c = 0; c < n_cells; ++c) {
      const __m256i k = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(cells + c * 64 + half * 32));
      const __m256i magnitude = _mm256_abs_epi8(k);
      for (int i = 0; i < Q; ++i) {
        const __m256i pairs = _mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(quad(query_group(queries, stride, i), 4 * c), k));  // ≤ 2·127·127
        sum[half][i] = _mm256_add_epi32(sum[half][i], _mm256_madd_epi16(pairs, ones));
      }
    }
  }
  for (int i = 0; i < Q; ++i) dots[i] = {_mm256_cvtepi32_ps(sum[0][i]), _mm256_cvtepi32_ps(sum[1][i])};
}
/// The same for cells of 8 dimensions in nibbles that are stored plus 8: low ones first, the high ones n_cells·4 dimensions on.
template <int Q>
inline void dot_i4(const std::byte* cells, size_t n_cells, const std::byte* queries, size_t stride, F32x16* dots) {
  const __m256i ones = _mm256_set1_epi16(1), nibble = _mm256_set1_epi8(15);
  __m256 half_dots[2][Q];
  for (int half = 0; half < 2; ++half) {
    __m256i sum[Q];
    for (int i = 0; i < Q; ++i) sum[i] = _mm256_setzero_si256();
    for (size_t c = 0; c < n_cells; ++c) {
      const __m256i k = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(cells + c * 64 + half * 32));
      const __m256i low = _mm256_and_si256(k, nibble), high = _mm256_and_si256(_mm256_srli_epi16(k, 4), nibble);
      for (int i = 0; i < Q; ++i) {
        const QueryGroup& q = query_group(queries, stride, i);  // 8 sums of 2·15·127 fit int16
        sum[i] = _mm256_add_epi16(sum[i], _mm256_add_epi16(_mm256_maddubs_epi16(low, quad(q, 4 * c)), _mm256_maddubs_epi16(high, quad(q, 4 * (n_cells + c)))));
      }
    }
    for (int i = 0; i < Q; ++i) {
      const __m256i offset = _mm256_set1_epi32(-8 * query_group(queries, stride, i).sum);
      half_dots[half][i] = _mm256_cvtepi32_ps(_mm256_add_epi32(_mm256_madd_epi16(sum[i], ones), offset));
    }
  }
  for (int i = 0; i < Q; ++i) dots[i] = {half_dots[0][i], half_dots[1][i]};
}

}  // namespace
}  // namespace quern::kernels::avx2
