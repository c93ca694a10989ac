// The matmul kernels for this instruction set.
#define QUERN_ISA scalar
#include "kernels/generic/matmul_portable.inl"

namespace quern::kernels::scalar {

const MatmulKernels* matmul_kernels() {
  static const MatmulKernels table = {quantize_row, quant_matmul, float_matmul, 1};
  return &table;
}

}  // namespace quern::kernels::scalar
