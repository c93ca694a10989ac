// Tables that have not landed yet; whoever lands one removes its line here (and the file with the last one).
#include "kernels/tables.h"

namespace quern::kernels {

const AttentionKernels* scalar::attention_kernels() { return nullptr; }
const AttentionKernels* avx2::attention_kernels() { return nullptr; }
const AttentionKernels* avx512::attention_kernels() { return nullptr; }

}  // namespace quern::kernels
