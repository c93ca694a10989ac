// Where a step first met a number that is not finite, whichever worker came first.
#pragma once
#include <atomic>

namespace quern::ops {

/// Places are numbered by the caller; the lowest is kept.
struct FirstFault {
  std::atomic<int> place{-1};   ///< −1: none
  void mark(int here) {
    int seen = place.load(std::memory_order_relaxed);
    while ((seen < 0 || here < seen) && !place.compare_exchange_weak(seen, here)) {
    }
  }
};

}  // namespace quern::ops
