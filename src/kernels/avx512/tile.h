// The product of a panel with a few tokens, in AVX-512 VNNI: 32 rows are two vectors, so that one load of an activation serves both.
// vpdpbusd sums unsigned codes times signed activations straight into int32, starting from what the codes' offset adds, negated.
// Included only by the stub of this folder; everything has internal linkage.
#pragma once

namespace quern::kernels::avx512 {
namespace {

/// As many tokens as the registers hold sums for: two vectors a token of dots and of results, and two more where halves have scales.
constexpr int max_tile_tokens(const GroupForm& form) { return form.has_half_scales ? 4 : 6; }

inline __m512i broadcast_dword(const void* p) {
  int32_t x;
  std::memcpy(&x, p, sizeof x);
  return _mm512_set1_epi32(x);
}

/// A dword of two int16.
constexpr int int16_pair(int low, int high) { return int(uint32_t(uint16_t(low)) | uint32_t(uint16_t(high)) << 16); }

/// Σ (code − offset) · x over quads [kFirst, kFirst + kCount) for T tokens. sum_weights: minus the offset for each half that is covered.
template <int kFirst, int kCount, int T>
[[gnu::always_inline]] inline void dot(const Panel& panel, size_t g, const ActTile& x, int sum_weights, __m512i (&sum)[T][2]) {
  unroll<T>([&](auto t) __attribute__((always_inline)) {
    const ActGroup& group = x.groups[t * x.group_stride + g];
    sum[t][0] = sum[t][1] = sum_weights ? _mm512_madd_epi16(broadcast_dword(group.sums), _mm512_set1_epi32(sum_weights)) : _mm512_setzero_si512();
  });
  unroll<kCount>([&](auto i) __attribute__((always_inline)) {
    constexpr int kQuad = kFirst + i;
    const __m512i w[2] = {load_bytes(panel.codes[g][kQuad][0]), load_bytes(panel.codes[g][kQuad][16])};
    unroll<T>([&](auto t) __attribute__((always_inline)) {
      const __m512i b = broadcast_dword(x.codes + (t * x.group_stride + g) * kActGroup + 4 * kQuad);
      unroll<2>([&](auto v) __attribute__((always_inline)) { sum[t][v] = _mm512_dpbusd_epi32(sum[t][v], w[v], b); });
    });
  });
}

/// float(I) of a group; products of sub-scales are exact in float (quant/group_form.h).
template <TensorType kType, int T>
[[gnu::always_inline]] inline void group_sums(const Panel& panel, size_t g, const ActTile& x, __m512 (&out)[T][2]) {
  constexpr GroupForm kForm = group_form_of(kType);
  __m512i sum[T][2];
  if constexpr (kForm.has_half_scales) {
    dot<0, 4, T>(panel, g, x, int16_pair(-kForm.offset, 0), sum);
    for (int v = 0; v < 2; ++v) {
      const __m512 s = _mm512_load_ps(panel.s[g][0] + 16 * v);
      for (int t = 0; t < T; ++t) out[t][v] = _mm512_mul_ps(_mm512_cvtepi32_ps(sum[t][v]), s);
    }
    dot<4, 4, T>(panel, g, x, int16_pair(0, -kForm.offset), sum);
    for (int v = 0; v < 2; ++v) {
      const __m512 s = _mm512_load_ps(panel.s[g][1] + 16 * v);
      for (int t = 0; t < T; ++t) out[t][v] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[t][v]), s, out[t][v]);
    }
  } else {
    dot<0, 8, T>(panel, g, x, int16_pair(-kForm.offset, -kForm.offset), sum);
    for (int t = 0; t < T; ++t) {
      for (int v = 0; v < 2; ++v) out[t][v] = _mm512_cvtepi32_ps(sum[t][v]);
    }
  }
}

/// acc after a group: the float part. m: the minimums of the halves, where they differ.
template <TensorType kType>
[[gnu::always_inline]] inline __m512 add_group(__m512 acc, __m512 sum, __m512 D, __m512 M, __m512i m, const ActGroup& x) {
  constexpr GroupForm kForm = group_form_of(kType);
  const __m512 a = _mm512_set1_ps(x.scale);
  acc = _mm512_fmadd_ps(sum, _mm512_mul_ps(D, a), acc);
  if constexpr (kForm.has_mins() && kForm.has_half_scales) {
    const __m512i J = _mm512_madd_epi16(m, broadcast_dword(x.sums));
    acc = _mm512_fmadd_ps(_mm512_cvtepi32_ps(J), _mm512_mul_ps(M, a), acc);
  } else if constexpr (kForm.has_mins()) {
    acc = _mm512_fmadd_ps(M, _mm512_set1_ps(x.scaled_sum), acc);
  }
  return acc;
}

/// sums[t][0…31] += the panel's n_groups groups.
template <TensorType kType, int T>
void tile(const Panel& panel, size_t n_groups, const ActTile& x, const TileSums& sums) {
  constexpr GroupForm kForm = group_form_of(kType);
  __m512 acc[T][2];
  for (int t = 0; t < T; ++t) {
    for (int v = 0; v < 2; ++v) acc[t][v] = sums.from ? _mm512_loadu_ps(sums.from + t * sums.from_stride + 16 * v) : _mm512_setzero_ps();
  }
  for (size_t g = 0; g < n_groups; ++g) {
    const size_t factors = factors_of(kForm, g);
    __m512 sum[T][2];
    group_sums<kType, T>(panel, g, x, sum);
    unroll<2>([&](auto v) __attribute__((always_inline)) {
      const __m512 D = _mm512_load_ps(panel.D[factors] + 16 * v), M = _mm512_load_ps(panel.M[factors] + 16 * v);
      const __m512i m = load_bytes(panel.m[g] + 16 * v);
      unroll<T>([&](auto t) __attribute__((always_inline)) { acc[t][v] = add_group<kType>(acc[t][v], sum[t][v], D, M, m, x.groups[t * x.group_stride + g]); });
    });
  }
  for (int t = 0; t < T; ++t) {
    for (int v = 0; v < 2; ++v) _mm512_storeu_ps(sums.to + t * sums.to_stride + 16 * v, acc[t][v]);
  }
}

}  // namespace
}  // namespace quern::kernels::avx512
