// The vector kernels for this instruction set.
#include "kernels/avx2/simd.h"
// clang-format off
#include "kernels/generic/vector.inl"
