// Activation quantization in AVX2. AVX-512 uses it too: a group is only 32 floats, and its dependent steps, not the width, bound it.
// Included by the stubs of both folders after simd.h, which names QUERN_ISA; everything has internal linkage.
#pragma once
#include <cstring>

#include "kernels/kernels.h"

namespace quern::kernels::QUERN_ISA {
namespace {

/// 32 values at x. Returns false if one is not finite.
inline bool quantize_group(const float* x, int8_t* codes, ActGroup& group) {
  __m256 v[4];
  __m256i largest = _mm256_setzero_si256();
  for (int i = 0; i < 4; ++i) {
    v[i] = _mm256_loadu_ps(x + 8 * i);
    largest = _mm256_max_epu32(largest, _mm256_and_si256(_mm256_castps_si256(v[i]), _mm256_set1_epi32(0x7fffffff)));
  }
  __m128i m = _mm_max_epu32(_mm256_castsi256_si128(largest), _mm256_extracti128_si256(largest, 1));
  m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0x4e));
  m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0xb1));
  const uint32_t amax_bits = uint32_t(_mm_cvtsi128_si32(m));
  const float amax = _mm_cvtss_f32(_mm_castsi128_ps(m));
  if (amax_bits >= 0x7f800000u) return false;
  if (amax < 0x1p-100f) {
    group = {};
    std::memset(codes, 0, kActGroup);
    return true;
  }
  const __m256 inv = _mm256_set1_ps(127.0f / amax);
  __m256i q[4];
  for (int i = 0; i < 4; ++i) q[i] = _mm256_cvtps_epi32(_mm256_mul_ps(v[i], inv));  // to nearest, ties to even; never beyond ±127
  const __m256i low = _mm256_permute4x64_epi64(_mm256_packs_epi32(q[0], q[1]), 0xd8), high = _mm256_permute4x64_epi64(_mm256_packs_epi32(q[2], q[3]), 0xd8);
  const __m256i bytes = _mm256_permute4x64_epi64(_mm256_packs_epi16(low, high), 0xd8);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(codes), bytes);
  // Sums of 16: pairs to int32, then across.
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i s = _mm256_hadd_epi32(_mm256_madd_epi16(low, ones), _mm256_madd_epi16(high, ones));  // lanes: [low low high high] twice
  s = _mm256_hadd_epi32(s, s);
  const __m128i both = _mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));  // [low high low high]
  const int low_sum = _mm_cvtsi128_si32(both), high_sum = _mm_extract_epi32(both, 1);
  const float scale = amax / 127.0f;
  group = {scale, scale * float(low_sum + high_sum), {int16_t(low_sum), int16_t(high_sum)}};
  return true;
}

bool quantize_row(const float* x, size_t n, int8_t* codes, ActGroup* groups) {
  bool finite = true;
  size_t g = 0;
  for (; (g + 1) * kActGroup <= n; ++g) finite &= quantize_group(x + g * kActGroup, codes + g * kActGroup, groups[g]);
  if (g * kActGroup < n) {
    float padded[kActGroup] = {};
    std::memcpy(padded, x + g * kActGroup, (n - g * kActGroup) * sizeof(float));
    finite &= quantize_group(padded, codes + g * kActGroup, groups[g]);
  }
  return finite;
}

}  // namespace
}  // namespace quern::kernels::QUERN_ISA
