// The merging at the heart of both kinds of BPE: take the best pair of neighbours, make it one symbol, look at the two
// new pairs, until none is left. A linked list of symbols and a heap of pairs: n log n for any input, no recursion.
// Knows nothing of vocabularies: the caller says what a pair is worth.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

namespace quern::text {

class MergeQueue {
 public:
  static constexpr uint32_t kNoMerge = 0xffffffffu;
  static constexpr uint32_t kEnd = 0xffffffffu;

  /// Merges symbols 0 … n−1. `priority(left, right)` gives a pair's rank, lower first, or kNoMerge; equal ranks go left
  /// to right. `merge(left, right, rank)` makes `left` the merged symbol; `right` is gone from then on.
  template <typename Priority, typename Merge>
  void run(uint32_t n, Priority&& priority, Merge&& merge) {
    next_.resize(n);
    previous_.resize(n);
    rank_.resize(n);
    heap_.clear();
    for (uint32_t i = 0; i < n; ++i) {
      next_[i] = i + 1 < n ? i + 1 : kEnd;
      previous_[i] = i > 0 ? i - 1 : kEnd;
      rank_[i] = i + 1 < n ? priority(i, i + 1) : kNoMerge;
      if (rank_[i] != kNoMerge) heap_.push_back(entry(rank_[i], i));
    }
    std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
      const uint32_t rank = uint32_t(heap_.back() >> 32), left = uint32_t(heap_.back());
      heap_.pop_back();
      // An entry is outdated when its symbol has gone, or when the pair there is another one by now.
      if (rank_[left] != rank) continue;
      const uint32_t right = next_[left];
      merge(left, right, rank);
      rank_[right] = kNoMerge;
      next_[left] = next_[right];
      if (next_[left] != kEnd) previous_[next_[left]] = left;
      look_at(left, priority);
      if (previous_[left] != kEnd) look_at(previous_[left], priority);
    }
  }

  /// The symbol after `i` that is still there, or kEnd.
  uint32_t next(uint32_t i) const { return next_[i]; }

 private:
  static uint64_t entry(uint32_t rank, uint32_t left) { return uint64_t(rank) << 32 | left; }

  template <typename Priority>
  void look_at(uint32_t left, Priority&& priority) {
    rank_[left] = next_[left] != kEnd ? priority(left, next_[left]) : kNoMerge;
    if (rank_[left] == kNoMerge) return;
    heap_.push_back(entry(rank_[left], left));
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
  }

  std::vector<uint32_t> next_, previous_;
  std::vector<uint32_t> rank_;  ///< of the pair (i, next(i)) as it is now
  std::vector<uint64_t> heap_;  ///< rank, then position: smallest first
};

}  // namespace quern::text
