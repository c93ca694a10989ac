// What attention needs beyond the common vocabulary: the size of its register blocks (plain code has no registers to fill).
#pragma once
#include "kernels/scalar/simd.h"

namespace quern::kernels::scalar {
namespace {

/// Queries of the largest block, and the vectors that go with a block of so many queries.
inline constexpr int kMostBlockQueries = 2;
inline constexpr int block_vectors(int) { return 1; }

}  // namespace
}  // namespace quern::kernels::scalar
