// What attention needs beyond the common vocabulary: the size of its register blocks (12 of the 16 registers accumulate).
#pragma once
#include "kernels/avx2/simd.h"

namespace quern::kernels::avx2 {
namespace {

/// Queries of the largest block, and the vectors that go with a block of so many queries.
inline constexpr int kMostBlockQueries = 6;
inline constexpr int block_vectors(int queries) { return queries == 1 ? 4 : queries <= 3 ? 2 : 1; }

}  // namespace
}  // namespace quern::kernels::avx2
