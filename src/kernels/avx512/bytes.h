// The vocabulary of the unpackers in AVX-512: bytes of 16 rows, four rows to a 128-bit lane. Row 4l + j (l = lane, j = 0…3) comes in
// vector j before a transposition and in dword j of lane l after it.
// Included only by the stubs of this folder; everything has internal linkage.
#pragma once
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace quern::kernels::avx512 {
namespace {

using Bytes = __m512i;
inline constexpr size_t kPartRows = 16;     ///< rows that one vector holds a dword of
inline constexpr bool kWideSigned = false;  ///< 8-bit codes lie in the panel as unsigned ones, offset 128

inline __m128i load_16(const std::byte* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
/// 16 bytes of rows 0, 4, 8 and 12 seen from p. A masked broadcast costs a load and a blend, where an insertion waits for the one
/// port that shuffles.
inline Bytes load_rows(const std::byte* p, size_t stride) {
  __m512i rows = _mm512_castsi128_si512(load_16(p));
  rows = _mm512_mask_broadcast_i32x4(rows, 0x00f0, load_16(p + 4 * stride));
  rows = _mm512_mask_broadcast_i32x4(rows, 0x0f00, load_16(p + 8 * stride));
  return _mm512_mask_broadcast_i32x4(rows, 0xf000, load_16(p + 12 * stride));
}
inline Bytes load_bytes(const void* p) { return _mm512_load_si512(p); }
inline void store_bytes(void* p, Bytes a) { _mm512_store_si512(p, a); }
inline Bytes set1_byte(int x) { return _mm512_set1_epi8(char(x)); }
inline Bytes set1_dword(uint32_t x) { return _mm512_set1_epi32(int(x)); }
/// The same 16 bytes in every lane.
inline Bytes set1_16(const int8_t* p) { return _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); }
inline Bytes bit_and(Bytes a, Bytes b) { return _mm512_and_si512(a, b); }
inline Bytes bit_or(Bytes a, Bytes b) { return _mm512_or_si512(a, b); }
inline Bytes bit_xor(Bytes a, Bytes b) { return _mm512_xor_si512(a, b); }
inline Bytes add_bytes(Bytes a, Bytes b) { return _mm512_add_epi8(a, b); }
inline Bytes sub_bytes(Bytes a, Bytes b) { return _mm512_sub_epi8(a, b); }
/// Shifts of dwords; the caller masks what crosses bytes.
template <int kBits> inline Bytes shift_right(Bytes a) { return _mm512_srli_epi32(a, kBits); }
template <int kBits> inline Bytes shift_left(Bytes a) { return _mm512_slli_epi32(a, kBits); }
inline Bytes shuffle_bytes(Bytes a, Bytes index) { return _mm512_shuffle_epi8(a, index); }
/// a + value, byte by byte where bits and mask share a bit; every byte of mask is one bit, and a and value share none.
inline Bytes add_where_bit(Bytes a, Bytes bits, Bytes mask, Bytes value) { return _mm512_mask_add_epi8(a, _mm512_test_epi8_mask(bits, mask), a, value); }
/// centre + a, or centre − a where bits and mask share a bit.
inline Bytes about(Bytes centre, Bytes a, Bytes bits, Bytes mask) {
  return _mm512_mask_sub_epi8(_mm512_add_epi8(centre, a), _mm512_test_epi8_mask(bits, mask), centre, a);
}
/// a + 1 where x ≥ least, unsigned bytes.
inline Bytes count_at_least(Bytes a, Bytes x, Bytes least) { return _mm512_mask_add_epi8(a, _mm512_cmpge_epu8_mask(x, least), a, _mm512_set1_epi8(1)); }
/// The dword of a table that each dword of index names.
inline Bytes gather(const void* table, Bytes index) { return _mm512_i32gather_epi32(index, table, 4); }
inline Bytes low_dwords(Bytes a, Bytes b) { return _mm512_unpacklo_epi32(a, b); }
inline Bytes high_dwords(Bytes a, Bytes b) { return _mm512_unpackhi_epi32(a, b); }
inline Bytes low_qwords(Bytes a, Bytes b) { return _mm512_unpacklo_epi64(a, b); }
inline Bytes high_qwords(Bytes a, Bytes b) { return _mm512_unpackhi_epi64(a, b); }
/// A float of each row.
using Factors = __m512;
/// The low halves of dwords as f16, converted.
inline Factors f16_low(Bytes dwords) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(dwords)); }
/// 2^(e − 128) of dwords e = 0 … 255; e < 2 gives subnormal numbers.
inline Factors half_exponent(Bytes e) {
  const __m512i normal = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
  const __m512i subnormal = _mm512_sllv_epi32(_mm512_set1_epi32(0x00200000), e);
  return _mm512_castsi512_ps(_mm512_mask_mov_epi32(subnormal, _mm512_cmpgt_epi32_mask(e, _mm512_set1_epi32(1)), normal));
}
inline Factors negated(Factors a) { return _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(a), _mm512_set1_epi32(INT32_MIN))); }
inline Factors scaled(Factors a, float x) { return _mm512_mul_ps(a, _mm512_set1_ps(x)); }
/// a times dwords as int32.
inline Factors times(Factors a, Bytes dwords) { return _mm512_mul_ps(a, _mm512_cvtepi32_ps(dwords)); }
inline void store_factors(float* p, Factors a) { _mm512_store_ps(p, a); }
/// Byte kByte of every dword, as int32.
template <int kByte> inline Bytes sign_extend_byte(Bytes a) { return _mm512_srai_epi32(_mm512_slli_epi32(a, 24 - 8 * kByte), 24); }
/// A half's sub-scale of each row, from a dword that holds it as int32, in the form the tile wants: as a float.
inline void store_scale(uint32_t* p, Bytes dwords) { _mm512_store_ps(p, _mm512_cvtepi32_ps(dwords)); }

}  // namespace
}  // namespace quern::kernels::avx512
