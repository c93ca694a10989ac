// Eviction by use: which rows of a full cache later queries are likely to need (H2O, arXiv 2306.14048; SnapKV, arXiv 2404.14469).
// Decided from what the last queries before a piece boundary attend to, so it depends on the tokens alone; knows nothing of sessions.
#pragma once
#include <cstddef>

#include "kernels/kernels.h"
#include "kv/cache.h"

namespace quern::ops {

/// Rows that a decision keeps whatever their use: the latest. The others that it keeps are those used most.
size_t recent_rows_kept(size_t n_kept);

/// Takes a piece's worth of rows out of every layer that evicts by use, each KV head its own: scores row r by
///   use[r] = use[r]/2 + Σ over the observed queries (positions ascending, then heads) of softmax(scale · q·k)[r],
/// keeps the latest rows and, of the others, those of the largest use (ties to the older), and closes the gaps. Keys are read back as stored,
/// and stored again with the same values. `position` is that of the next token. Allocates; cold: once in 256 tokens.
void evict(int n_threads, const kernels::Kernels& kernels, KvCache& cache, size_t position, float scale, float softcap);

}  // namespace quern::ops
