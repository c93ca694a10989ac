// One token times 16 rows, straight from the unpacked vectors: what decoding does. A panel would only be written and read again.
// Included only by the stub of this folder; everything has internal linkage.
#pragma once

namespace quern::kernels::avx512 {
namespace {

/// See panel.inl. Each group is added to acc when it is done.
template <TensorType kType>
class DirectPart : public GroupFactors {
 public:
  /// x: the token's groups of this block.
  DirectPart(const ActTile& x, __m512& acc) : x_(x), acc_(acc) {}

  static __m512 start() { return _mm512_setzero_ps(); }
  static void store(float* y, __m512 acc) { _mm512_storeu_ps(y, acc); }

  [[gnu::always_inline]] void set_codes(size_t group, size_t quad, Bytes codes) {
    const size_t half = kForm.has_half_scales ? quad / 4 : 0;
    if (quad == 4 * half) dot_[group][half] = minus_offset(group, half);  // the first of the half
    dot_[group][half] = _mm512_dpbusd_epi32(dot_[group][half], codes, broadcast_dword(x_.codes + group * kActGroup + 4 * quad));
  }
  [[gnu::always_inline]] void set_half_scale(size_t, size_t half, Bytes dwords) { s_[half] = _mm512_cvtepi32_ps(dwords); }
  [[gnu::always_inline]] void group_done(size_t group) {
    __m512 sum = _mm512_cvtepi32_ps(dot_[group][0]);
    if constexpr (kForm.has_half_scales) sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot_[group][1]), s_[1], _mm512_mul_ps(sum, s_[0]));
    acc_ = add_group<kType>(acc_, sum, group_d_, group_m_, half_mins_, x_.groups[group]);
  }

 private:
  static constexpr GroupForm kForm = group_form_of(kType);
  static constexpr size_t kGroups = kForm.block_elems / kActGroup;
  static constexpr size_t kHalves = kForm.has_half_scales ? 2 : 1;

  [[gnu::always_inline]] __m512i minus_offset(size_t group, size_t half) const {
    if constexpr (kForm.offset == 0) return _mm512_setzero_si512();
    const int weights = kHalves == 1 ? int16_pair(-kForm.offset, -kForm.offset) : half == 0 ? int16_pair(-kForm.offset, 0) : int16_pair(0, -kForm.offset);
    return _mm512_madd_epi16(broadcast_dword(x_.groups[group].sums), _mm512_set1_epi32(weights));
  }

  const ActTile& x_;
  __m512& acc_;
  __m512i dot_[kGroups][kHalves];
  __m512 s_[kHalves];
};

/// In lane i: the sums of dwords 0 … 3 of v[0][i], v[1][i], v[2][i], v[3][i].
inline __m512i lane_sums(const __m512i (&v)[4]) {
  const __m512i a = _mm512_add_epi32(low_dwords(v[0], v[1]), high_dwords(v[0], v[1])), b = _mm512_add_epi32(low_dwords(v[2], v[3]), high_dwords(v[2], v[3]));
  return _mm512_add_epi32(low_qwords(a, b), high_qwords(a, b));
}

/// Codes of a byte need no unpacking: rows are multiplied as they lie, two to a vector, and the products' sums transposed in place of
/// the codes, which are four times as many.
template <>
[[gnu::always_inline]] inline void add_block<TensorType::Q8_0>(Rows rows, const ActTile& x, __m512& acc) {
  const __m512i codes = _mm512_broadcast_i64x4(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x.codes)));
  __m512i quarter[2];  // lanes: rows 0 … 3 of eight, two sums each, then rows 4 … 7
  unroll<2>([&](auto eight) __attribute__((always_inline)) {
    __m512i dots[4];
    unroll<4>([&](auto j) __attribute__((always_inline)) {
      const auto row = [&](size_t r) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(rows.base + r * rows.stride + offsetof(BlockQ8_0, qs))); };
      const __m512i w = _mm512_inserti64x4(_mm512_castsi256_si512(row(8 * eight + j)), row(8 * eight + j + 4), 1);
      dots[j] = _mm512_dpbusd_epi32(_mm512_setzero_si512(), bit_xor(w, set1_byte(0x80)), codes);
    });
    quarter[eight] = lane_sums(dots);
  });
  const __m512i sum = _mm512_add_epi32(_mm512_shuffle_i32x4(quarter[0], quarter[1], 0x88), _mm512_shuffle_i32x4(quarter[0], quarter[1], 0xdd));
  const __m512i minus_offset = _mm512_madd_epi16(broadcast_dword(x.groups->sums), _mm512_set1_epi16(-128));
  const __m512 d = f16_low(load_head(rows, offsetof(BlockQ8_0, d)));
  acc = add_group<TensorType::Q8_0>(acc, _mm512_cvtepi32_ps(_mm512_add_epi32(sum, minus_offset)), d, d, sum, *x.groups);
}

}  // namespace
}  // namespace quern::kernels::avx512
