// The attention kernels for this instruction set.
#include "kernels/scalar/attention_simd.h"
// clang-format off
#include "kernels/generic/attention.inl"
