// What this processor and this process may use: instruction sets (with the OS's consent), cache sizes, cores.
#pragma once
#include <cstddef>
#include <string>

namespace quern {

struct CpuInfo {
  bool avx2 = false;    ///< AVX2, FMA, F16C, BMI2, and the OS saves the registers
  bool avx512 = false;  ///< AVX-512 F/BW/VL/DQ/VNNI on top, and the OS saves the registers
  size_t l1d_bytes = 32 << 10;
  size_t l2_bytes = 512 << 10;
  size_t l3_bytes = 8 << 20;
};
/// Read once at first use.
const CpuInfo& cpu_info();

/// Physical cores in the affinity mask, limited by the cgroup's CPU quota (v1 and v2); at least 1.
int usable_cores();

/// MemAvailable and the cgroup's memory.max less its use (idle file pages not counted), whichever is smaller.
size_t available_memory_bytes();

}  // namespace quern
