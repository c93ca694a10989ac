// The measuring loops in AVX-512 VNNI: one vpdpbusd is 64 multiplications with their additions.
#include <immintrin.h>

#include "kernels/bench.h"

namespace quern::kernels::avx512 {
const BenchKernels* bench_kernels();

namespace {

uint64_t read(const std::byte* data, size_t n_bytes) {
  constexpr int kSums = 8;
  __m512i sums[kSums];
  for (__m512i& sum : sums) sum = _mm512_setzero_si512();
  for (const std::byte* p = data; p < data + n_bytes; p += kSums * 64) {
    for (int i = 0; i < kSums; ++i) sums[i] = _mm512_add_epi64(sums[i], _mm512_load_si512(p + 64 * i));
  }
  for (int i = 1; i < kSums; ++i) sums[0] = _mm512_add_epi64(sums[0], sums[i]);
  return uint64_t(_mm512_reduce_add_epi64(sums[0]));
}

uint64_t multiply(size_t n_rounds) {
  constexpr int kChains = 16;
  __m512i sums[kChains];
#pragma GCC unroll 16
  for (int i = 0; i < kChains; ++i) sums[i] = _mm512_setzero_si512();
  __m512i w = _mm512_set1_epi8(3);
  const __m512i x = _mm512_set1_epi8(5);
  for (size_t round = 0; round < n_rounds; ++round) {
#pragma GCC unroll 16
    for (int i = 0; i < kChains; ++i) {
      asm volatile("" : "+v"(w));  // another value each time, as far as the compiler knows
      sums[i] = _mm512_dpbusd_epi32(sums[i], w, x);
      asm volatile("" : "+v"(sums[i]));  // one that is spilled or copied would hide the peak
    }
  }
  return uint64_t(n_rounds) * kChains * 64 * 2;
}

}  // namespace

const BenchKernels* bench_kernels() {
  static const BenchKernels table = {read, multiply};
  return &table;
}

}  // namespace quern::kernels::avx512
