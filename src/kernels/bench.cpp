// One row an instruction set.
#include "kernels/bench.h"

namespace quern::kernels {
namespace scalar {
const BenchKernels* bench_kernels();
}
namespace avx2 {
const BenchKernels* bench_kernels();
}
namespace avx512 {
const BenchKernels* bench_kernels();
}

const BenchKernels& bench_kernels(Isa isa) {
  switch (isa) {
    case Isa::kScalar: return *scalar::bench_kernels();
    case Isa::kAvx2: return *avx2::bench_kernels();
    case Isa::kAvx512: return *avx512::bench_kernels();
  }
  return *scalar::bench_kernels();
}

}  // namespace quern::kernels
