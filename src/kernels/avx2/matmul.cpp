// The matmul kernels for this instruction set.
#include <algorithm>
#include <limits>

#include "kernels/avx2/bytes.h"
#include "kernels/avx2/simd.h"
// clang-format off
#include "kernels/avx2/quantize.h"
#include "kernels/generic/panel.inl"
#include "kernels/generic/unpack_simple.inl"
#include "kernels/generic/unpack_k.inl"
#include "kernels/generic/unpack_grid.inl"
#include "kernels/avx2/tile.h"
#include "kernels/avx2/direct.h"
#include "kernels/generic/quant_matmul.inl"
#include "kernels/generic/float_matmul.inl"
// clang-format on
#include "kernels/tables.h"

namespace quern::kernels::avx2 {

const MatmulKernels* matmul_kernels() {
  static const MatmulKernels table = {quantize_row, quant_matmul, float_matmul<2, 2, true>, kPanelRows};
  return &table;
}

}  // namespace quern::kernels::avx2
