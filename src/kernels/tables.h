// Where the instruction sets hand in their tables: each namespace is compiled with flags of its own and exports only these.
#pragma once
#include "kernels/kernels.h"

#define QUERN_DECLARE_ISA(isa)                    \
  namespace quern::kernels::isa {                 \
  const MatmulKernels* matmul_kernels();          \
  const VectorKernels* vector_kernels();          \
  const AttentionKernels* attention_kernels();    \
  }
QUERN_DECLARE_ISA(scalar)
QUERN_DECLARE_ISA(avx2)
QUERN_DECLARE_ISA(avx512)
#undef QUERN_DECLARE_ISA
