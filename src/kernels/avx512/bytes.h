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
inline constexpr bool kScaleIsFloat = true;

inline __m128i load_16(const std::byte* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
inline __m128i load_4(const std::byte* p) { return _mm_loadu_si32(p); }
inline Bytes join(__m128i a, __m128i b, __m128i c, __m128i d) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_inserti128_si256(_mm256_castsi128_si256(a), b, 1)), _mm256_inserti128_si256(_mm256_castsi128_si256(c), d, 1), 1);
}
/// 16 bytes of rows 0, 4, 8 and 12 seen from p.
inline Bytes load_rows(const std::byte* p, size_t stride) { return join(load_16(p), load_16(p + 4 * stride), load_16(p + 8 * stride), load_16(p + 12 * stride)); }
/// 4 bytes of each of 16 rows, as after a transposition.
inline Bytes load_dwords(const std::byte* p, size_t stride) {
  const auto four = [&](const std::byte* q) {
    return _mm_unpacklo_epi64(_mm_unpacklo_epi32(load_4(q), load_4(q + stride)), _mm_unpacklo_epi32(load_4(q + 2 * stride), load_4(q + 3 * stride)));
  };
  return join(four(p), four(p + 4 * stride), four(p + 8 * stride), four(p + 12 * stride));
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
inline Bytes sub_bytes(Bytes a, Bytes b) { return _mm512_sub_epi8(a, b); }
/// Shifts of dwords; the caller masks what crosses bytes.
template <int kBits> inline Bytes shift_right(Bytes a) { return _mm512_srli_epi32(a, kBits); }
template <int kBits> inline Bytes shift_left(Bytes a) { return _mm512_slli_epi32(a, kBits); }
inline Bytes shuffle_bytes(Bytes a, Bytes index) { return _mm512_shuffle_epi8(a, index); }
/// value where a and mask share a bit, byte by byte; every byte of mask is one bit.
inline Bytes where_bit(Bytes a, Bytes mask, Bytes value) { return _mm512_maskz_mov_epi8(_mm512_test_epi8_mask(a, mask), value); }
inline Bytes low_dwords(Bytes a, Bytes b) { return _mm512_unpacklo_epi32(a, b); }
inline Bytes high_dwords(Bytes a, Bytes b) { return _mm512_unpackhi_epi32(a, b); }
inline Bytes low_qwords(Bytes a, Bytes b) { return _mm512_unpacklo_epi64(a, b); }
inline Bytes high_qwords(Bytes a, Bytes b) { return _mm512_unpackhi_epi64(a, b); }
/// The low halves of dwords as f16, converted.
inline void store_f16_low(float* p, Bytes dwords) { _mm512_store_ps(p, _mm512_cvtph_ps(_mm512_cvtepi32_epi16(dwords))); }
inline void store_negated(float* p, const float* q) {
  _mm512_store_si512(p, _mm512_xor_si512(_mm512_load_si512(q), _mm512_set1_epi32(INT32_MIN)));
}
/// Byte kByte of every dword, as int32.
template <int kByte> inline Bytes sign_extend_byte(Bytes a) { return _mm512_srai_epi32(_mm512_slli_epi32(a, 24 - 8 * kByte), 24); }
/// A sub-scale of each row, from a dword that holds it as int32, in the form the tile wants: as a float.
inline void store_scale(uint32_t* p, Bytes dwords) { _mm512_store_ps(p, _mm512_cvtepi32_ps(dwords)); }

}  // namespace
}  // namespace quern::kernels::avx512
