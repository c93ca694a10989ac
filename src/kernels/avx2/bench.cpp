// The measuring loops in AVX2: what a 4-bit product costs at least is one maddubs and one addition for 32 multiplications.
#include <immintrin.h>

#include "kernels/bench.h"

namespace quern::kernels::avx2 {
const BenchKernels* bench_kernels();

namespace {

uint64_t read(const std::byte* data, size_t n_bytes) {
  constexpr int kSums = 8;
  __m256i sums[kSums];
  for (__m256i& sum : sums) sum = _mm256_setzero_si256();
  for (const std::byte* p = data; p < data + n_bytes; p += kSums * 32) {
    for (int i = 0; i < kSums; ++i) {
      sums[i] = _mm256_add_epi64(sums[i], _mm256_load_si256(reinterpret_cast<const __m256i*>(p + 32 * i)));
    }
  }
  for (int i = 1; i < kSums; ++i) sums[0] = _mm256_add_epi64(sums[0], sums[i]);
  alignas(32) uint64_t words[4];
  _mm256_store_si256(reinterpret_cast<__m256i*>(words), sums[0]);
  return words[0] + words[1] + words[2] + words[3];
}

uint64_t multiply(size_t n_rounds) {
  constexpr int kChains = 12;
  __m256i sums[kChains];
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) sums[i] = _mm256_setzero_si256();
  __m256i w = _mm256_set1_epi8(3);
  const __m256i x = _mm256_set1_epi8(5);
  for (size_t round = 0; round < n_rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) {
      asm volatile("" : "+x"(w));  // another value each time, as far as the compiler knows
      sums[i] = _mm256_add_epi16(sums[i], _mm256_maddubs_epi16(w, x));
      asm volatile("" : "+x"(sums[i]));  // one that is spilled or copied would hide the peak
    }
  }
  return uint64_t(n_rounds) * kChains * 32 * 2;
}

}  // namespace

const BenchKernels* bench_kernels() {
  static const BenchKernels table = {read, multiply};
  return &table;
}

}  // namespace quern::kernels::avx2
