// The attention kernels for this instruction set.
#include "kernels/avx512/attention_simd.h"
// clang-format off
#include "kernels/generic/attention.inl"
