// The vocabulary of the unpackers in AVX2: bytes of 8 rows, four rows to a 128-bit lane. Rows 4l + j (l = lane, j = 0…3) of the
// eight come in vector j before a transposition and in dword j of lane l after it.
// Included only by the stubs of this folder; everything has internal linkage.
#pragma once
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace quern::kernels::avx2 {
namespace {

using Bytes = __m256i;
inline constexpr size_t kPartRows = 8;      ///< rows that one vector holds a dword of
inline constexpr bool kWideSigned = true;   ///< 8-bit codes lie in the panel as signed values

inline __m128i load_16(const std::byte* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
/// 16 bytes of rows 0 and 4 seen from p.
inline Bytes load_rows(const std::byte* p, size_t stride) { return _mm256_inserti128_si256(_mm256_castsi128_si256(load_16(p)), load_16(p + 4 * stride), 1); }
inline Bytes load_bytes(const void* p) { return _mm256_load_si256(static_cast<const __m256i*>(p)); }
inline void store_bytes(void* p, Bytes a) { _mm256_store_si256(static_cast<__m256i*>(p), a); }
inline Bytes set1_byte(int x) { return _mm256_set1_epi8(char(x)); }
inline Bytes set1_dword(uint32_t x) { return _mm256_set1_epi32(int(x)); }
/// The same 16 bytes in every lane.
inline Bytes set1_16(const int8_t* p) { return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); }
inline Bytes bit_and(Bytes a, Bytes b) { return _mm256_and_si256(a, b); }
inline Bytes bit_or(Bytes a, Bytes b) { return _mm256_or_si256(a, b); }
inline Bytes bit_xor(Bytes a, Bytes b) { return _mm256_xor_si256(a, b); }
inline Bytes add_bytes(Bytes a, Bytes b) { return _mm256_add_epi8(a, b); }
inline Bytes sub_bytes(Bytes a, Bytes b) { return _mm256_sub_epi8(a, b); }
/// Shifts of dwords; the caller masks what crosses bytes.
template <int kBits> inline Bytes shift_right(Bytes a) { return _mm256_srli_epi32(a, kBits); }
template <int kBits> inline Bytes shift_left(Bytes a) { return _mm256_slli_epi32(a, kBits); }
inline Bytes shuffle_bytes(Bytes a, Bytes index) { return _mm256_shuffle_epi8(a, index); }
/// a + value, byte by byte where bits and mask share a bit; every byte of mask is one bit, and a and value share none.
inline Bytes add_where_bit(Bytes a, Bytes bits, Bytes mask, Bytes value) {
  return _mm256_or_si256(a, _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_and_si256(bits, mask), mask), value));
}
/// centre + a, or centre − a where bits and mask share a bit.
inline Bytes about(Bytes centre, Bytes a, Bytes bits, Bytes mask) {
  const __m256i minus = _mm256_cmpeq_epi8(_mm256_and_si256(bits, mask), mask);
  return _mm256_add_epi8(centre, _mm256_sub_epi8(_mm256_xor_si256(a, minus), minus));
}
/// a + 1 where x ≥ least, unsigned bytes.
inline Bytes count_at_least(Bytes a, Bytes x, Bytes least) { return _mm256_sub_epi8(a, _mm256_cmpeq_epi8(_mm256_max_epu8(x, least), x)); }
/// The dword of a table that each dword of index names.
inline Bytes gather(const void* table, Bytes index) { return _mm256_i32gather_epi32(static_cast<const int*>(table), index, 4); }
inline Bytes low_dwords(Bytes a, Bytes b) { return _mm256_unpacklo_epi32(a, b); }
inline Bytes high_dwords(Bytes a, Bytes b) { return _mm256_unpackhi_epi32(a, b); }
inline Bytes low_qwords(Bytes a, Bytes b) { return _mm256_unpacklo_epi64(a, b); }
inline Bytes high_qwords(Bytes a, Bytes b) { return _mm256_unpackhi_epi64(a, b); }
/// A float of each row.
using Factors = __m256;
/// The low halves of dwords as f16, converted.
inline Factors f16_low(Bytes dwords) {
  const __m256i pattern = _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 0, 1, 4, 5, 8, 9, 12, 13, 0, 1, 4, 5, 8, 9, 12, 13, 0, 1, 4, 5, 8, 9, 12, 13);
  const __m256i packed = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(dwords, pattern), 0x08);
  return _mm256_cvtph_ps(_mm256_castsi256_si128(packed));
}
/// 2^(e − 128) of dwords e = 0 … 255; e < 2 gives subnormal numbers.
inline Factors half_exponent(Bytes e) {
  const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
  const __m256i subnormal = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
  return _mm256_castsi256_ps(_mm256_blendv_epi8(subnormal, normal, _mm256_cmpgt_epi32(e, _mm256_set1_epi32(1))));
}
inline Factors negated(Factors a) { return _mm256_xor_ps(a, _mm256_set1_ps(-0.0f)); }
inline Factors scaled(Factors a, float x) { return _mm256_mul_ps(a, _mm256_set1_ps(x)); }
/// a times dwords as int32.
inline Factors times(Factors a, Bytes dwords) { return _mm256_mul_ps(a, _mm256_cvtepi32_ps(dwords)); }
inline void store_factors(float* p, Factors a) { _mm256_store_ps(p, a); }
/// Byte kByte of every dword, as int32.
template <int kByte> inline Bytes sign_extend_byte(Bytes a) { return _mm256_srai_epi32(_mm256_slli_epi32(a, 24 - 8 * kByte), 24); }
/// The low halves of dwords, twice.
inline Bytes twice(Bytes dwords) { return _mm256_blend_epi16(dwords, _mm256_slli_epi32(dwords, 16), 0xaa); }
/// A half's sub-scale of each row, from a dword that holds it as int32, in the form the tile wants: twice as int16.
inline void store_scale(uint32_t* p, Bytes dwords) { _mm256_store_si256(reinterpret_cast<__m256i*>(p), twice(dwords)); }

}  // namespace
}  // namespace quern::kernels::avx2
