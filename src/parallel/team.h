// Who computes: a team of threads that walks one function together. The only OpenMP in the tree is behind this header.
// A forward step is one run_team; inside, each stage hands out chunks from a shared counter (a slow or pre-empted core costs
// little) and ends at a barrier that spins for microseconds, then sleeps.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace quern {

/// What the workers of one run share.
struct TeamState {
  explicit TeamState(int n) : n_workers(n) {}
  int n_workers;
  alignas(64) std::atomic<size_t> next_chunk{0};
  alignas(64) std::atomic<int> n_arrived{0};
  alignas(64) std::atomic<uint32_t> generation{0};
  std::atomic<int> n_sleeping{0};
};

class Worker {
 public:
  Worker(TeamState& state, int index) : state_(state), index_(index) {}
  int index() const { return index_; }
  int count() const { return state_.n_workers; }

  /// Returns when all workers have called it.
  void barrier();
  /// From now on this worker's time at barriers is added to *ns.
  void time_waits(uint64_t* ns) { waited_ns_ = ns; }

  /// Calls f(chunk) once for each chunk in [0, n_chunks), spread over the workers by demand; ends with a barrier. Every worker must
  /// make the same sequence of calls. f must not throw.
  template <typename F>
  void for_chunks(size_t n_chunks, F&& f) {
    if (state_.n_workers == 1) {
      for (size_t i = 0; i < n_chunks; ++i) f(i);
      return;
    }
    for (size_t i; (i = state_.next_chunk.fetch_add(1, std::memory_order_relaxed)) < n_chunks;) f(i);
    barrier();
  }

  /// Calls f() on one worker only; ends with a barrier.
  template <typename F>
  void once(F&& f) {
    if (index_ == 0) f();
    barrier();
  }

 private:
  void wait_for_all();

  TeamState& state_;
  int index_;
  uint64_t* waited_ns_ = nullptr;
};

/// Runs body on up to n_threads threads (this one included) and returns when all are done. Sets MXCSR to 0x1F80 (round to
/// nearest, no flush to zero) on every worker: part of the same-bits rule. body must not throw.
void run_team(int n_threads, const std::function<void(Worker&)>& body);

}  // namespace quern
