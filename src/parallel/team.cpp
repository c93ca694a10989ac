// OpenMP supplies the threads; the barrier is ours, because a pure spin barrier collapses when the machine is busy and a pure
// sleeping one costs more than a decode stage.
#include "parallel/team.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>

#if QUERN_OPENMP
#include <omp.h>
#else
#include <thread>
#include <vector>
#endif

namespace quern {
namespace {

constexpr int kSpins = 4000;  // some ten microseconds of pause instructions

void set_float_mode() {
  const unsigned mxcsr = 0x1f80;
  __asm__ volatile("ldmxcsr %0" : : "m"(mxcsr));
}

void futex_wait(std::atomic<uint32_t>& word, uint32_t expected) {
  ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}

void futex_wake_all(std::atomic<uint32_t>& word) {
  ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, 0x7fffffff, nullptr, nullptr, 0);
}

}  // namespace

void Worker::barrier() {
  if (state_.n_workers == 1) return;
  if (!waited_ns_) return wait_for_all();
  const auto start = std::chrono::steady_clock::now();
  wait_for_all();
  *waited_ns_ += uint64_t((std::chrono::steady_clock::now() - start) / std::chrono::nanoseconds(1));
}

void Worker::wait_for_all() {
  TeamState& s = state_;
  const uint32_t generation = s.generation.load(std::memory_order_acquire);
  if (s.n_arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == s.n_workers) {
    s.n_arrived.store(0, std::memory_order_relaxed);
    s.next_chunk.store(0, std::memory_order_relaxed);  // everyone has stopped claiming
    s.generation.store(generation + 1, std::memory_order_seq_cst);
    if (s.n_sleeping.load(std::memory_order_seq_cst) > 0) futex_wake_all(s.generation);
    return;
  }
  for (int i = 0; i < kSpins; ++i) {
    if (s.generation.load(std::memory_order_acquire) != generation) return;
    __builtin_ia32_pause();
  }
  s.n_sleeping.fetch_add(1, std::memory_order_seq_cst);
  while (s.generation.load(std::memory_order_seq_cst) == generation) futex_wait(s.generation, generation);
  s.n_sleeping.fetch_sub(1, std::memory_order_relaxed);
}

void run_team(int n_threads, const std::function<void(Worker&)>& body) {
  if (n_threads <= 1) {
    set_float_mode();
    TeamState state(1);
    Worker worker(state, 0);
    body(worker);
    return;
  }
#if QUERN_OPENMP
  TeamState state(n_threads);
#pragma omp parallel num_threads(n_threads)
  {
    set_float_mode();
#pragma omp single
    state.n_workers = omp_get_num_threads();
    Worker worker(state, omp_get_thread_num());
    body(worker);
  }
#else
  TeamState state(n_threads);
  const auto work = [&](int index) {
    set_float_mode();
    Worker worker(state, index);
    body(worker);
  };
  std::vector<std::thread> threads;
  for (int i = 1; i < n_threads; ++i) threads.emplace_back(work, i);
  work(0);
  for (std::thread& thread : threads) thread.join();
#endif
}

}  // namespace quern
