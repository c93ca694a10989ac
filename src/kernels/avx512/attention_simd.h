// What attention needs beyond the common vocabulary: the size of its register blocks (24 of the 32 registers accumulate).
#pragma once
#include "kernels/avx512/simd.h"

namespace quern::kernels::avx512 {
namespace {

/// Queries of the largest block, and the vectors that go with a block of so many queries.
inline constexpr int kMostBlockQueries = 8;
inline constexpr int block_vectors(int queries) { return queries <= 6 ? 4 : 2; }

}  // namespace
}  // namespace quern::kernels::avx512
