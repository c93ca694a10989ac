// Who computes: a team of threads that walks one function together. The only OpenMP in the tree is behind this header.
// A forward step is one run_team; inside, each stage hands out chunks from a shared counter and is over when its chunks are done, not
// when every worker has come by: a worker that the system has put aside holds nobody up unless it is inside a chunk, and skips
// what was done without it when it comes back. So a busy machine slows a step in proportion.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace quern {

/// What the workers of one run share.
struct TeamState {
  explicit TeamState(int n) : n_workers(n) {}
  int n_workers;
  alignas(64) std::atomic<uint64_t> ticket{0};       ///< stage << 32 | next chunk: nobody can claim a chunk of a stage that is over
  alignas(64) std::atomic<uint32_t> n_done{0};       ///< chunks of the current stage
  alignas(64) std::atomic<uint32_t> n_completed{0};  ///< stages; what idle workers sleep on
  std::atomic<int> n_sleeping{0};
};

class Worker {
 public:
  Worker(TeamState& state, int index) : state_(state), index_(index) {}
  int index() const { return index_; }
  int count() const { return state_.n_workers; }
  /// From now on this worker's time waiting for the others is added to *ns.
  void time_waits(uint64_t* ns) { waited_ns_ = ns; }
  /// What this worker will probably read next: it fetches these bytes into its caches, in order, while it waits for the others.
  void fetch_while_waiting(std::span<const std::byte> bytes) { wanted_ = bytes; }

  /// Calls f(chunk) once for each chunk in [0, n_chunks), spread over the workers by demand; returns when all are done. Every worker
  /// makes the same sequence of calls, but may find a call's work done already: whatever a later stage reads must be
  /// written inside f. f must not throw. n_chunks < 2^32.
  template <typename F>
  void for_chunks(size_t n_chunks, F&& f) {
    if (state_.n_workers == 1 || n_chunks == 0) {
      for (size_t i = 0; i < n_chunks; ++i) f(i);
      return;
    }
    const uint32_t stage = stage_++;
    uint64_t ticket = state_.ticket.load(std::memory_order_acquire);
    while (uint32_t(ticket >> 32) == stage && uint32_t(ticket) < n_chunks) {
      if (!state_.ticket.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acq_rel, std::memory_order_acquire)) continue;
      f(size_t(uint32_t(ticket)));
      if (state_.n_done.fetch_add(1, std::memory_order_acq_rel) + 1 == n_chunks) return complete(stage);
      ticket = state_.ticket.load(std::memory_order_acquire);
    }
    if (uint32_t(ticket >> 32) == stage) wait_for(stage);
  }

 private:
  void complete(uint32_t stage);
  void wait_for(uint32_t stage);
  void fetch_while(uint32_t seen);

  TeamState& state_;
  int index_;
  uint32_t stage_ = 0;
  uint64_t* waited_ns_ = nullptr;
  std::span<const std::byte> wanted_;
};

/// Runs body on up to n_threads threads (this one included) and returns when all are done. Sets MXCSR to 0x1F80 (round to
/// nearest, no flush to zero) on every worker: part of the same-bits rule. body must not throw.
void run_team(int n_threads, const std::function<void(Worker&)>& body);

}  // namespace quern
