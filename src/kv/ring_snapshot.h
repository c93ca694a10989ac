// A ring cannot go back further than its slack. What its windows still need at some place is copied here, so that the cache can return
// to that place later, as a chat does when a message is taken back. Knows nothing of tokens or files.
#pragma once
#include <cstddef>
#include <vector>

#include "kv/cache.h"

namespace quern {

struct RingSnapshot {
  size_t n_tokens = 0;             ///< the place: positions [0, n_tokens) were complete
  std::vector<size_t> first;       ///< per layer: the first unpinned piece that is there; 0 for a layer without a ring
  std::vector<std::byte> bytes;    ///< pieces [first, end) of the layers with rings, one after the other
};

/// Whether a layer of the cache has overwritten, or can overwrite, what it once held.
bool has_rings(const KvLayout& layout);
RingSnapshot take_ring_snapshot(const KvCache& cache);
/// Back to the snapshot's place. The rows of layers without rings must be those of then, which they are as long as the cache was not
/// rewound below it.
void restore_ring_snapshot(KvCache& cache, const RingSnapshot& snapshot);

}  // namespace quern
