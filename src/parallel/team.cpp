// OpenMP supplies the threads; waiting is ours, because pure spinning collapses when the machine is busy and pure sleeping costs more
// than a decode stage.
#include "parallel/team.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#if QUERN_OPENMP
#include <omp.h>
#else
#include <thread>
#include <vector>
#endif

namespace quern {
namespace {

constexpr int kSpins = 300;  // some microseconds of pause instructions: longer would burn the slice that the awaited worker needs
constexpr size_t kFetchBytes = 512;  // between two looks at whether the wait is over

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

/// Idle a moment, then asleep, until `word` is no longer `seen`.
void wait_while(std::atomic<uint32_t>& word, uint32_t seen, std::atomic<int>& n_sleeping) {
  for (int i = 0; i < kSpins; ++i) {
    if (word.load(std::memory_order_acquire) != seen) return;
    __builtin_ia32_pause();
  }
  n_sleeping.fetch_add(1, std::memory_order_seq_cst);
  while (word.load(std::memory_order_seq_cst) == seen) futex_wait(word, seen);
  n_sleeping.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace

void Worker::complete(uint32_t stage) {
  TeamState& s = state_;
  s.n_done.store(0, std::memory_order_relaxed);
  s.ticket.store(uint64_t(stage + 1) << 32, std::memory_order_release);
  s.n_completed.fetch_add(1, std::memory_order_seq_cst);
  if (s.n_sleeping.load(std::memory_order_seq_cst) > 0) futex_wake_all(s.n_completed);
}

void Worker::wait_for(uint32_t stage) {
  const auto start = waited_ns_ ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point();
  // Stages complete in order, so the count passes `stage` when this one has; it may lag behind the ticket for an instant.
  for (uint32_t seen; int32_t((seen = state_.n_completed.load(std::memory_order_acquire)) - stage) <= 0;) {
    fetch_while(seen);
    wait_while(state_.n_completed, seen, state_.n_sleeping);
  }
  if (waited_ns_) *waited_ns_ += uint64_t((std::chrono::steady_clock::now() - start) / std::chrono::nanoseconds(1));
}

/// Fetches what is wanted until there is no more of it or n_completed is no longer `seen`.
void Worker::fetch_while(uint32_t seen) {
  while (!wanted_.empty() && state_.n_completed.load(std::memory_order_acquire) == seen) {
    const auto some = wanted_.first(std::min(kFetchBytes, wanted_.size()));
    for (size_t i = 0; i < some.size(); i += 64) __builtin_prefetch(some.data() + i, 0, 2);
    wanted_ = wanted_.subspan(some.size());
  }
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
