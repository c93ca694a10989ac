// The measuring loops in portable C++.
#include "kernels/bench.h"

namespace quern::kernels::scalar {
const BenchKernels* bench_kernels();

namespace {

uint64_t read(const std::byte* data, size_t n_bytes) {
  const auto* words = reinterpret_cast<const uint64_t*>(data);
  uint64_t sums[8] = {};
  for (size_t i = 0; i < n_bytes / sizeof(uint64_t); i += 8) {
    for (size_t j = 0; j < 8; ++j) sums[j] += words[i + j];
  }
  uint64_t sum = 0;
  for (const uint64_t s : sums) sum += s;
  return sum;
}

uint64_t multiply(size_t n_rounds) {
  constexpr int kChains = 8;
  int32_t sums[kChains] = {};
  int32_t w = 3, x = 5;
  for (size_t round = 0; round < n_rounds; ++round) {
    for (int32_t& sum : sums) {
      asm volatile("" : "+r"(w), "+r"(x));
      sum += w * x;
    }
  }
  for (int32_t& sum : sums) asm volatile("" : "+r"(sum));
  return uint64_t(n_rounds) * kChains * 2;
}

}  // namespace

const BenchKernels* bench_kernels() {
  static const BenchKernels table = {read, multiply};
  return &table;
}

}  // namespace quern::kernels::scalar
