// One token times 8 rows, straight from the unpacked vectors: what decoding does. A panel would only be written and read again.
// Included only by the stub of this folder; everything has internal linkage.
#pragma once

namespace quern::kernels::avx2 {
namespace {

/// See panel.inl. Each group is added to acc when it is done.
template <TensorType kType>
class DirectPart : public GroupFactors {
 public:
  /// x: the token's groups of this block.
  DirectPart(const ActTile& x, __m256& acc) : x_(x), acc_(acc) {}

  static __m256 start() { return _mm256_setzero_ps(); }
  static void store(float* y, __m256 acc) { _mm256_storeu_ps(y, acc); }

  [[gnu::always_inline]] void set_codes(size_t group, size_t quad, Bytes codes) {
    const __m256i b = broadcast_dword(x_.codes + group * kActGroup + 4 * quad);
    if constexpr (kSigned) {
      const __m256i wide = _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_abs_epi8(codes), _mm256_sign_epi8(b, codes)), _mm256_set1_epi16(1));
      sums_[group][0] = quad == 0 ? wide : _mm256_add_epi32(sums_[group][0], wide);
      pin(sums_[group][0]);
    } else {
      __m256i& pairs = sums_[group][quad / kQuads];
      const __m256i p = _mm256_maddubs_epi16(codes, b);
      pairs = quad % kQuads == 0 ? p : _mm256_add_epi16(pairs, p);
      pin(pairs);
    }
  }
  [[gnu::always_inline]] void set_half_scale(size_t, size_t half, Bytes dwords) { s_[half] = twice(dwords); }
  [[gnu::always_inline]] void group_done(size_t group) {
    acc_ = add_group<kType>(acc_, group_sum(group), group_d_, group_m_, half_mins_, x_.groups[group]);
  }

 private:
  static constexpr GroupForm kForm = group_form_of(kType);
  static constexpr size_t kGroups = kForm.block_elems / kActGroup;
  static constexpr bool kSigned = segment_quads(kForm) == 0;
  static constexpr size_t kQuads = kSigned ? 8 : segment_quads(kForm);

  [[gnu::always_inline]] __m256i group_sum(size_t group) const {
    if constexpr (kSigned) return sums_[group][0];
    __m256i sum = _mm256_setzero_si256();
    for (size_t i = 0; i < 8 / kQuads; ++i) {
      const __m256i s = kForm.has_half_scales ? s_[i * kQuads / 4] : _mm256_set1_epi16(1);
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(sums_[group][i], s));
    }
    if constexpr (kForm.offset != 0) {
      const __m256i asum = broadcast_dword(x_.groups[group].sums);
      if constexpr (kForm.has_half_scales) sum = _mm256_sub_epi32(sum, scaled_offset<kType>(s_[0], s_[1], asum));
      else sum = _mm256_sub_epi32(sum, _mm256_madd_epi16(asum, _mm256_set1_epi16(kForm.offset)));
    }
    return sum;
  }

  const ActTile& x_;
  __m256& acc_;
  __m256i sums_[kGroups][8 / kQuads];  ///< of int16 as long as they fit; of int32 for signed codes
  __m256i s_[2];
};

}  // namespace
}  // namespace quern::kernels::avx2
