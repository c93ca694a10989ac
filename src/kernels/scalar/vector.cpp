// The vector kernels for this instruction set.
#include "kernels/scalar/simd.h"
// clang-format off
#include "kernels/generic/vector.inl"
