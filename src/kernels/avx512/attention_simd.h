// What attention needs beyond the common vocabulary: 8- and 4-bit codes, and the size of its register blocks
// (24 of the 32 registers accumulate).
#pragma once
#include "kernels/kernels.h"
#include "kernels/avx512/simd.h"

namespace quern::kernels::avx512 {
namespace {

/// Queries of the largest block, and the vectors that go with a block of so many queries.
inline constexpr int kMostBlockQueries = 8;
inline constexpr int block_vectors(int queries) { return queries <= 6 ? 4 : 2; }

/// 16 codes of E4M3, divided by 256 (the difference of its exponent bias to that of f16).
inline F32x16 load_e4m3(const uint8_t* p) {
  const __m256i wide = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return {_mm512_cvtph_ps(_mm256_and_si256(_mm256_slli_epi16(wide, 7), _mm256_set1_epi16(short(0xbfff))))};
}
/// Low or high nibbles of 16 bytes.
inline F32x16 load_low_nibbles(const uint8_t* p) {
  return {_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_and_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)), _mm_set1_epi8(15))))};
}
inline F32x16 load_high_nibbles(const uint8_t* p) {
  return {_mm512_cvtepi32_ps(_mm512_srli_epi32(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))), 4))};
}

inline const QueryGroup& query_group(const std::byte* queries, size_t stride, int i) { return *reinterpret_cast<const QueryGroup*>(queries + i * stride); }
/// 4 codes of a query in every lane.
inline __m512i quad(const QueryGroup& q, size_t first) {
  int32_t codes;
  __builtin_memcpy(&codes, q.codes + first, sizeof codes);
  return _mm512_set1_epi32(codes);
}

/// dots[i] = Σ of the codes of 16 positions (cells of 4 dimensions) times those of query group i, as float.
template <int Q>
inline void dot_i8(const std::byte* cells, size_t n_cells, const std::byte* queries, size_t stride, F32x16* dots) {
  const __m512i offset = _mm512_set1_epi8(char(0x80));
  __m512i sum[Q];
  for (int i = 0; i < Q; ++i) sum[i] = _mm512_set1_epi32(-128 * query_group(queries, stride, i).sum);
  for (size_t c = 0; c < n_cells; ++c) {
    const __m512i k = _mm512_xor_si512(_mm512_loadu_si512(cells + c * 64), offset);
    for (int i = 0; i < Q; ++i) sum[i] = _mm512_dpbusd_epi32(sum[i], k, quad(query_group(queries, stride, i), 4 * c));
  }
  for (int i = 0; i < Q; ++i) dots[i] = {_mm512_cvtepi32_ps(sum[i])};
}
/// The same for cells of 8 dimensions in nibbles that are stored plus 8: low ones first, the high ones n_cells·4 dimensions on.
template <int Q>
inline void dot_i4(const std::byte* cells, size_t n_cells, const std::byte* queries, size_t stride, F32x16* dots) {
  const __m512i nibble = _mm512_set1_epi8(15);
  __m512i sum[Q];
  for (int i = 0; i < Q; ++i) sum[i] = _mm512_set1_epi32(-8 * query_group(queries, stride, i).sum);
  for (size_t c = 0; c < n_cells; ++c) {
    const __m512i k = _mm512_loadu_si512(cells + c * 64);
    const __m512i low = _mm512_and_si512(k, nibble), high = _mm512_and_si512(_mm512_srli_epi16(k, 4), nibble);
    for (int i = 0; i < Q; ++i) {
      const QueryGroup& q = query_group(queries, stride, i);
      sum[i] = _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(sum[i], low, quad(q, 4 * c)), high, quad(q, 4 * (n_cells + c)));
    }
  }
  for (int i = 0; i < Q; ++i) dots[i] = {_mm512_cvtepi32_ps(sum[i])};
}

}  // namespace
}  // namespace quern::kernels::avx512
