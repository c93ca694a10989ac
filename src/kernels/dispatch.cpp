// Which table is used: the best one that the CPU and its OS support, or the one that QUERN_ISA names.
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/cpu.h"
#include "kernels/tables.h"

namespace quern::kernels {

const Kernels* kernels_for(Isa isa) {
  static const Kernels tables[] = {
      {Isa::kScalar, "scalar", scalar::matmul_kernels(), scalar::vector_kernels(), scalar::attention_kernels()},
      {Isa::kAvx2, "avx2", avx2::matmul_kernels(), avx2::vector_kernels(), avx2::attention_kernels()},
      {Isa::kAvx512, "avx512", avx512::matmul_kernels(), avx512::vector_kernels(), avx512::attention_kernels()},
  };
  if (isa == Isa::kAvx2 && !cpu_info().avx2) return nullptr;
  if (isa == Isa::kAvx512 && !cpu_info().avx512) return nullptr;
  return &tables[int(isa)];
}

const Kernels& active_kernels() {
  static const Kernels& chosen = []() -> const Kernels& {
    const char* forced = std::getenv("QUERN_ISA");
    if (!forced || !*forced) {
      for (const Isa isa : {Isa::kAvx512, Isa::kAvx2}) {
        if (const Kernels* table = kernels_for(isa)) return *table;
      }
      return *kernels_for(Isa::kScalar);
    }
    const std::string_view name = forced;
    for (const Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512}) {
      const char* names[] = {"scalar", "avx2", "avx512"};
      if (name != names[int(isa)]) continue;
      if (const Kernels* table = kernels_for(isa)) return *table;
      throw_error(ErrorKind::kUsage, "QUERN_ISA={}: this CPU has no {}; unset QUERN_ISA or use one that it has", name, name);
    }
    throw_error(ErrorKind::kUsage, "QUERN_ISA={}: not known; allowed are scalar, avx2, avx512", name);
  }();
  return chosen;
}

}  // namespace quern::kernels
