// The machine's own limits: how fast its threads read memory, and how fast they multiply int8 codes.
#include <algorithm>
#include <atomic>
#include <chrono>

#include "base/check.h"
#include "base/cpu.h"
#include "engine/engine_impl.h"
#include "kernels/bench.h"
#include "parallel/team.h"
#include "quern/bench.h"

namespace quern {
namespace {

constexpr size_t kReadPasses = 7;
constexpr size_t kReadSlice = size_t(1) << 20;
constexpr size_t kMultiplySlices = 64;
constexpr size_t kMultiplyRounds = 1 << 16;
constexpr size_t kLargestBuffer = size_t(2) << 30;

double seconds_of_team(int threads, size_t n_chunks, const std::function<void(size_t)>& chunk) {
  const auto start = std::chrono::steady_clock::now();
  run_team(threads, [&](Worker& worker) { worker.for_chunks(n_chunks, chunk); });
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

MachineFigures measure_machine(const Engine& engine, int threads, const std::atomic<bool>* cancelled) {
  const kernels::BenchKernels& k = kernels::bench_kernels(engine.impl().kernels.isa);
  MachineFigures figures;
  figures.threads = threads;
  const size_t wanted = std::min({4 * cpu_info().l3_bytes + kReadSlice, kLargestBuffer, available_memory_bytes() / 4});
  const size_t n_slices = std::max<size_t>(1, wanted / kReadSlice);
  AlignedBuffer<std::byte> buffer(n_slices * kReadSlice);
  buffer.zero();
  figures.buffer_bytes = buffer.size();

  std::atomic<uint64_t> sink{0};  // what is computed must be seen, or it would not be computed
  std::vector<double> read_speeds, multiply_speeds;
  for (size_t pass = 0; pass <= kReadPasses; ++pass) {  // the first one warms up
    if (cancelled && cancelled->load()) throw_error(ErrorKind::kInterrupted, "interrupted");
    const double read_s = seconds_of_team(threads, n_slices, [&](size_t i) { sink += k.read(buffer.data() + i * kReadSlice, kReadSlice); });
    std::atomic<uint64_t> n_ops{0};
    const double multiply_s = seconds_of_team(threads, kMultiplySlices, [&](size_t) { n_ops += k.multiply(kMultiplyRounds); });
    if (pass == 0) continue;
    read_speeds.push_back(double(buffer.size()) / read_s * 1e-9);
    multiply_speeds.push_back(double(n_ops) / multiply_s * 1e-9);
  }
  figures.read_gb_per_s = median(read_speeds);
  figures.int8_gop_per_s = median(multiply_speeds);
  return figures;
}

}  // namespace quern
