// Which instruction sets a kernel test runs on: all that this CPU has, or the one that QUERN_ISA_TEST names.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "kernels/kernels.h"

namespace quern::test {

inline std::vector<const kernels::Kernels*> isas() {
  const char* only = std::getenv("QUERN_ISA_TEST");
  std::vector<const kernels::Kernels*> out;
  const std::string_view names[] = {"scalar", "avx2", "avx512"};
  for (int i = 0; i < 3; ++i) {
    if (only && names[i] != only) continue;
    if (const kernels::Kernels* table = kernels::kernels_for(kernels::Isa(i))) out.push_back(table);
  }
  if (only && out.empty()) {
    std::printf("skipped: this CPU has no %s\n", only);
    std::exit(77);
  }
  return out;
}

inline const kernels::Kernels& scalar() { return *kernels::kernels_for(kernels::Isa::kScalar); }

}  // namespace quern::test
