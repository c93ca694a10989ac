// The attention kernels for this instruction set.
#include "kernels/avx2/attention_simd.h"
// clang-format off
#include "kernels/generic/attention.inl"
