// The product of a panel with a few tokens, in AVX2: 16 rows are two vectors of 8. maddubs sums pairs of products in int16; as many
// quads as fit are added before madd widens them to int32, multiplying by the sub-scale of a half on the way. Codes of 8 bits are signed and
// lend their sign to the activations.
// Included only by the stub of this folder; everything has internal linkage.
#pragma once

namespace quern::kernels::avx2 {
namespace {

constexpr int max_tile_tokens(const GroupForm&) { return 4; }

/// Keeps the compiler from re-associating sums across this point, which would spill the accumulators.
inline void pin(__m256i& v) { asm("" : "+x"(v)); }

inline __m256i broadcast_dword(const void* p) {
  int32_t x;
  std::memcpy(&x, p, sizeof x);
  return _mm256_set1_epi32(x);
}

/// Quads of 4 codes whose pair sums fit int16: 32767 / (2·127·max_code); 0 means the signed way.
constexpr int segment_quads(const GroupForm& form) {
  if (form.max_code > 127) return 0;
  const int fit = 32767 / (2 * 127 * form.max_code);
  const int most = form.has_half_scales ? 4 : 8;
  int quads = 1;
  while (quads * 2 <= fit && quads * 2 <= most) quads *= 2;
  return quads;
}

/// I over the group (with s = 1 if the halves share it), before the offset is taken off, for T tokens × 2 vectors of 8 rows.
template <TensorType kType, int T>
[[gnu::always_inline]] inline void unsigned_sums(const Panel& panel, size_t g, const int8_t* x, size_t x_stride, __m256i (&sum)[T][2]) {
  constexpr GroupForm kForm = group_form_of(kType);
  constexpr int kQuads = segment_quads(kForm);
  unroll<8 / kQuads>([&](auto segment) __attribute__((always_inline)) {
    constexpr int kHalf = kForm.has_half_scales ? segment * kQuads / 4 : 0;
    __m256i pairs[T][2];
    unroll<kQuads>([&](auto i) __attribute__((always_inline)) {
      constexpr int kQuad = segment * kQuads + i;
      const __m256i w[2] = {load_bytes(panel.codes[g][kQuad][0]), load_bytes(panel.codes[g][kQuad][8])};
      unroll<T>([&](auto t) __attribute__((always_inline)) {
        const __m256i b = broadcast_dword(x + t * x_stride + 4 * kQuad);
        unroll<2>([&](auto v) __attribute__((always_inline)) {
          const __m256i p = _mm256_maddubs_epi16(w[v], b);
          pairs[t][v] = i == 0 ? p : _mm256_add_epi16(pairs[t][v], p);
          pin(pairs[t][v]);
        });
      });
    });
    unroll<2>([&](auto v) __attribute__((always_inline)) {
      const __m256i s = kForm.has_half_scales ? load_bytes(panel.s[g][kHalf] + 8 * v) : _mm256_set1_epi16(1);
      unroll<T>([&](auto t) __attribute__((always_inline)) {
        const __m256i wide = _mm256_madd_epi16(pairs[t][v], s);
        sum[t][v] = segment == 0 ? wide : _mm256_add_epi32(sum[t][v], wide);
      });
    });
  });
}

/// Σ codes · x over the group, for signed 8-bit codes (no offset).
template <TensorType kType, int T>
[[gnu::always_inline]] inline void signed_sums(const Panel& panel, size_t g, const int8_t* x, size_t x_stride, __m256i (&sum)[T][2]) {
  constexpr GroupForm kForm = group_form_of(kType);
  static_assert(!kForm.has_half_scales);
  const __m256i ones = _mm256_set1_epi16(1);
  unroll<8>([&](auto quad) __attribute__((always_inline)) {
    unroll<2>([&](auto v) __attribute__((always_inline)) {
      const __m256i w = load_bytes(panel.codes[g][quad][8 * v]);
      const __m256i magnitude = _mm256_abs_epi8(w);
      unroll<T>([&](auto t) __attribute__((always_inline)) {
        const __m256i b = broadcast_dword(x + t * x_stride + 4 * quad);
        const __m256i wide = _mm256_madd_epi16(_mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(b, w)), ones);
        sum[t][v] = quad == 0 ? wide : _mm256_add_epi32(sum[t][v], wide);
        pin(sum[t][v]);
      });
    });
  });
}

/// offset · Σ_h s_h · sums_h; s0, s1: as store_scale leaves them; asum: a group's sums in every lane.
template <TensorType kType>
[[gnu::always_inline]] inline __m256i scaled_offset(__m256i s0, __m256i s1, __m256i asum) {
  constexpr int kOffset = group_form_of(kType).offset;
  const __m256i sums = _mm256_madd_epi16(_mm256_blend_epi16(s0, s1, 0xaa), asum);
  if constexpr (std::has_single_bit(unsigned(kOffset))) return _mm256_slli_epi32(sums, std::countr_zero(unsigned(kOffset)));
  else return _mm256_mullo_epi32(sums, _mm256_set1_epi32(kOffset));
}

/// sum −= offset · Σ_h s_h · sums_h (s = 1 if the halves share it).
template <TensorType kType, int T>
[[gnu::always_inline]] inline void take_offset(const Panel& panel, size_t g, const ActGroup* x, size_t x_stride, __m256i (&sum)[T][2]) {
  constexpr GroupForm kForm = group_form_of(kType);
  unroll<T>([&](auto t) __attribute__((always_inline)) {
    const __m256i asum = broadcast_dword(x[t * x_stride].sums);
    if constexpr (!kForm.has_half_scales) {
      const __m256i less = _mm256_madd_epi16(asum, _mm256_set1_epi16(kForm.offset));
      for (int v = 0; v < 2; ++v) sum[t][v] = _mm256_sub_epi32(sum[t][v], less);
    } else {
      for (int v = 0; v < 2; ++v) {
        sum[t][v] = _mm256_sub_epi32(sum[t][v], scaled_offset<kType>(load_bytes(panel.s[g][0] + 8 * v), load_bytes(panel.s[g][1] + 8 * v), asum));
      }
    }
  });
}

/// acc after a group: the float part. m: the minimums of the halves, where they differ.
template <TensorType kType>
[[gnu::always_inline]] inline __m256 add_group(__m256 acc, __m256i sum, __m256 D, __m256 M, __m256i m, const ActGroup& x) {
  constexpr GroupForm kForm = group_form_of(kType);
  const __m256 a = _mm256_set1_ps(x.scale);
  acc = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), _mm256_mul_ps(D, a), acc);
  if constexpr (kForm.has_mins() && kForm.has_half_scales) {
    const __m256i J = _mm256_madd_epi16(m, broadcast_dword(x.sums));
    acc = _mm256_fmadd_ps(_mm256_cvtepi32_ps(J), _mm256_mul_ps(M, a), acc);
  } else if constexpr (kForm.has_mins()) {
    acc = _mm256_fmadd_ps(M, _mm256_set1_ps(x.scaled_sum), acc);
  }
  return acc;
}

/// sums[t][0…15] += the panel's n_groups groups.
template <TensorType kType, int T>
void tile(const Panel& panel, size_t n_groups, const ActTile& x, const TileSums& sums) {
  constexpr GroupForm kForm = group_form_of(kType);
  __m256 acc[T][2];
  for (int t = 0; t < T; ++t) {
    for (int v = 0; v < 2; ++v) acc[t][v] = sums.from ? _mm256_loadu_ps(sums.from + t * sums.from_stride + 8 * v) : _mm256_setzero_ps();
  }
  for (size_t g = 0; g < n_groups; ++g) {
    const size_t factors = factors_of(kForm, g);
    __m256i sum[T][2];
    if constexpr (segment_quads(kForm) == 0) signed_sums<kType, T>(panel, g, x.codes + g * kActGroup, x.group_stride * kActGroup, sum);
    else unsigned_sums<kType, T>(panel, g, x.codes + g * kActGroup, x.group_stride * kActGroup, sum);
    if constexpr (segment_quads(kForm) != 0 && kForm.offset != 0) take_offset<kType, T>(panel, g, x.groups + g, x.group_stride, sum);
    unroll<T>([&](auto t) __attribute__((always_inline)) {
      unroll<2>([&](auto v) __attribute__((always_inline)) {
        const __m256 D = _mm256_load_ps(panel.D[factors] + 8 * v), M = _mm256_load_ps(panel.M[factors] + 8 * v);
        acc[t][v] = add_group<kType>(acc[t][v], sum[t][v], D, M, load_bytes(panel.m[g] + 8 * v), x.groups[t * x.group_stride + g]);
      });
    });
  }
  for (int t = 0; t < T; ++t) {
    for (int v = 0; v < 2; ++v) _mm256_storeu_ps(sums.to + t * sums.to_stride + 8 * v, acc[t][v]);
  }
}

}  // namespace
}  // namespace quern::kernels::avx2
