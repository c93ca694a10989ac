// cpuid and xgetbv for the instruction sets; sysfs, /proc and cgroup files for what the process may use.
#include "base/cpu.h"

#include <cpuid.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace quern {
namespace {

uint64_t xgetbv0() {
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t(high) << 32) | low;
}

void read_features(CpuInfo& info) {
  uint32_t a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return;
  const bool osxsave = c & (1u << 27), fma = c & (1u << 12), f16c = c & (1u << 29), avx = c & (1u << 28);
  if (!osxsave || !avx) return;
  const uint64_t saved = xgetbv0();
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return;
  const bool avx2 = b & (1u << 5), bmi2 = b & (1u << 8);
  info.avx2 = avx2 && fma && f16c && bmi2 && (saved & 0x6) == 0x6;
  const bool f = b & (1u << 16), dq = b & (1u << 17), bw = b & (1u << 30), vl = b & (1u << 31), vnni = c & (1u << 11);
  info.avx512 = info.avx2 && f && dq && bw && vl && vnni && (saved & 0xe6) == 0xe6;
}

std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

/// The last cache as the kernel knows it, or 0: what sysconf says counts, on some virtual machines, other sockets' caches too.
size_t l3_from_sysfs() {
  const std::string folder = "/sys/devices/system/cpu/cpu0/cache/index3/";
  std::istringstream size(first_line(folder + "size"));
  size_t n = 0;
  char unit = 0;
  if (first_line(folder + "level") != "3" || !(size >> n >> unit)) return 0;
  return n << (unit == 'M' ? 20 : 10);
}

void read_caches(CpuInfo& info) {
  const auto size = [](int name, size_t fallback) {
    const long n = ::sysconf(name);
    return n > 0 ? size_t(n) : fallback;
  };
  info.l1d_bytes = size(_SC_LEVEL1_DCACHE_SIZE, info.l1d_bytes);
  info.l2_bytes = size(_SC_LEVEL2_CACHE_SIZE, info.l2_bytes);
  const size_t l3 = l3_from_sysfs();
  info.l3_bytes = l3 ? l3 : size(_SC_LEVEL3_CACHE_SIZE, info.l3_bytes);
}

/// The process's cgroup folders, innermost first, for v2 ("") or a v1 controller.
std::vector<std::string> cgroup_folders(const std::string& controller) {
  std::ifstream in("/proc/self/cgroup");
  std::vector<std::string> folders;
  for (std::string line; std::getline(in, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string names = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool match = controller.empty() ? names == ",," : names.find("," + controller + ",") != std::string::npos;
    if (!match) continue;
    const std::string root = controller.empty() ? "/sys/fs/cgroup" : "/sys/fs/cgroup/" + controller;
    for (std::string path = line.substr(second + 1);; path = path.substr(0, path.rfind('/'))) {
      if (path == "/") path.clear();
      folders.push_back(root + path);
      if (path.empty()) break;
    }
  }
  return folders;
}

double cgroup_cpu_quota() {
  double cores = std::numeric_limits<double>::infinity();
  for (const std::string& folder : cgroup_folders("")) {
    std::istringstream in(first_line(folder + "/cpu.max"));
    double quota, period;
    if (in >> quota >> period && period > 0) cores = std::min(cores, quota / period);
  }
  for (const std::string& folder : cgroup_folders("cpu")) {
    const std::string quota = first_line(folder + "/cpu.cfs_quota_us"), period = first_line(folder + "/cpu.cfs_period_us");
    if (quota.empty() || period.empty() || quota[0] == '-') continue;
    cores = std::min(cores, std::stod(quota) / std::max(1.0, std::stod(period)));
  }
  return cores;
}

}  // namespace

const CpuInfo& cpu_info() {
  static const CpuInfo info = [] {
    CpuInfo i;
    read_features(i);
    read_caches(i);
    return i;
  }();
  return info;
}

int usable_cores() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  std::set<std::pair<std::string, std::string>> cores;  // (package, core): hyper-threads of one core count once
  int logical = 0;
  if (::sched_getaffinity(0, sizeof(mask), &mask) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (!CPU_ISSET(cpu, &mask)) continue;
      ++logical;
      const std::string topology = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
      const std::string core = first_line(topology + "core_id");
      if (!core.empty()) cores.insert({first_line(topology + "physical_package_id"), core});
    }
  }
  int count = cores.empty() ? std::max(1, logical) : int(cores.size());
  const double quota = cgroup_cpu_quota();
  if (std::isfinite(quota)) count = std::min(count, std::max(1, int(std::ceil(quota))));
  return std::max(1, count);
}

size_t available_memory_bytes() {
  size_t available = std::numeric_limits<size_t>::max();
  std::ifstream in("/proc/meminfo");
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("MemAvailable:", 0) == 0) available = size_t(std::stoull(line.substr(13))) << 10;
  }
  // Pages of files that nobody has touched lately count as used, but are given up before anything is killed.
  const auto idle_file_bytes = [](const std::string& folder, const std::string& name) {
    std::ifstream stat(folder + "/memory.stat");
    size_t bytes = 0;
    for (std::string line; std::getline(stat, line);) {
      if (line.rfind(name + " ", 0) == 0) bytes = std::stoull(line.substr(name.size() + 1));
    }
    return bytes;
  };
  const auto limit_by = [&](const std::string& folder, const char* limit_name, const char* usage_name, const char* idle_name) {
    const std::string limit = first_line(folder + limit_name), usage = first_line(folder + usage_name);
    if (limit.empty() || limit == "max" || usage.empty()) return;
    const size_t most = std::stoull(limit), all = std::stoull(usage), used = all - std::min(all, idle_file_bytes(folder, idle_name));
    available = std::min(available, most > used ? most - used : 0);
  };
  for (const std::string& folder : cgroup_folders("")) limit_by(folder, "/memory.max", "/memory.current", "inactive_file");
  for (const std::string& folder : cgroup_folders("memory")) limit_by(folder, "/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file");
  return available;
}

}  // namespace quern
