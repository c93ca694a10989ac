// Attention over the cache, for any number of sequences at once. Rows are written first and always read back as stored, the
// chunk's own included; each query walks the spans that the cache gives it, piece by piece, merged in ascending order.
#pragma once
#include <atomic>
#include <cstddef>
#include <span>

#include "kernels/kernels.h"
#include "kv/cache.h"
#include "model/rope.h"
#include "parallel/team.h"

namespace quern::ops {

/// One sequence's part of a step: rows [row, row + n_tokens) of the step's buffers stand at positions first_pos….
struct AttentionSegment {
  KvCache* cache = nullptr;
  size_t first_pos = 0;
  size_t row = 0;
  size_t n_tokens = 0;
  const RopeTable* ropes = nullptr;  ///< the sequence's tables, with frame angles where the K type is framed; unused where keys do not turn
};

struct AttentionArgs {
  const kernels::Kernels* kernels = nullptr;
  std::span<const AttentionSegment> segments;
  size_t layer = 0;
  size_t rope = 0;                ///< which of the segments' tables turned q and k
  RopePairing pairing = RopePairing::kNone;  ///< kNone: keys of this layer do not turn
  size_t n_heads = 0, n_kv_heads = 0, k_dim = 0, v_dim = 0;
  const float* q = nullptr;       ///< [n_tokens][n_heads][k_dim], after rope
  const float* q_sink = nullptr;  ///< the same rotated at KvCache::sink_query_position; null without sinks
  float* k = nullptr;             ///< [n_tokens][n_kv_heads][k_dim], after rope; may be overwritten (Hadamard)
  float* v = nullptr;             ///< [n_tokens][n_kv_heads][v_dim]; may be overwritten; unused where the cache's layer has no values of its own:
                                  ///< these are then the first v_dim dimensions of the keys
  const float* sinks = nullptr;   ///< [n_heads] learned sink logits (gpt-oss), or null
  const float* slopes = nullptr;  ///< [n_heads] ALiBi: a position d before the query has slope·d taken off its score; or null
  float scale = 1.0f;
  float softcap = 0.0f;
  float* out = nullptr;           ///< [n_tokens][n_heads][v_dim]
  std::byte* workspace = nullptr; ///< attention_workspace_bytes(…), shared by the team, 64-byte aligned
};

/// Most pieces that a query before position n_positions sees in a layer, those of sinks counted apart.
size_t most_pieces_seen(const KvLayerLayout& layer, size_t n_positions);
/// Workspace for a step: an upper bound over what its segments need. n_workers = team size; n_pieces = the most that any query sees.
size_t attention_workspace_bytes(size_t n_tokens, size_t n_heads, size_t n_kv_heads, size_t k_dim, size_t v_dim, size_t n_pieces,
                                 int n_workers);

/// Every worker of the team calls it with the same arguments. Writes k and v to the caches, then attends.
/// `cancelled` (may be null) is polled at each chunk; a cancelled call leaves `out` unspecified.
void attention(Worker& worker, const AttentionArgs& args, const std::atomic<bool>* cancelled);

}  // namespace quern::ops
