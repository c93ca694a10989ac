// What the machine does at most, for `quern bench`: loops without a purpose of their own, beside which real work is measured.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"

namespace quern::kernels {

struct BenchKernels {
  /// Reads n_bytes (a multiple of 512, 64-byte aligned) in address order; returns the sum of their 64-bit words.
  uint64_t (*read)(const std::byte* data, size_t n_bytes);
  /// Multiplies and adds int8 codes in registers, n_rounds times, with the instructions that products use; returns the operations
  /// done, two a multiply-add.
  uint64_t (*multiply)(size_t n_rounds);
};

/// @pre kernels_for(isa) is not null.
const BenchKernels& bench_kernels(Isa isa);

}  // namespace quern::kernels
