// How much scratch the matmul kernels ask for: the most that any instruction set needs, so that callers need not know which.
#include "kernels/kernels.h"

namespace quern::kernels {

// A panel of 32 rows × 256 columns: 8 KiB of codes, 5 KiB of factors and sub-scales; and the sums of 32 rows.
size_t quant_matmul_scratch_bytes(size_t n_tokens) { return (16 << 10) + n_tokens * 32 * sizeof(float); }

// Four decoded rows, each padded to whole vectors.
size_t float_matmul_scratch_bytes(size_t n_cols) { return 4 * ((n_cols + 15) / 16 * 16) * sizeof(float); }

}  // namespace quern::kernels
