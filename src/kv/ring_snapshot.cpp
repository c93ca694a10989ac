// Pieces are copied whole: rows of positions ≥ n_tokens in the last one are rewritten before anybody reads them.
#include "kv/ring_snapshot.h"

#include <algorithm>
#include <cstring>

namespace quern {
namespace {

size_t end_piece(size_t n_tokens) { return (n_tokens + kPiecePositions - 1) / kPiecePositions; }

}  // namespace

bool has_rings(const KvLayout& layout) {
  for (size_t i = 0; i < layout.n_layers(); ++i) {
    if (layout.layer(i).is_ring) return true;
  }
  return false;
}

RingSnapshot take_ring_snapshot(const KvCache& cache) {
  RingSnapshot snapshot{cache.n_tokens(), std::vector<size_t>(cache.layout().n_layers(), 0), {}};
  for (size_t i = 0; i < cache.layout().n_layers(); ++i) {
    const KvLayerLayout& l = cache.layout().layer(i);
    if (!l.is_ring) continue;
    // The query at n_tokens sees n_tokens − window + 1 and later.
    const size_t oldest_seen = snapshot.n_tokens + 1 > l.window ? snapshot.n_tokens + 1 - l.window : 0;
    const KvCache::HeldPieces held = cache.held_pieces(i);
    const size_t first = std::max(oldest_seen / kPiecePositions, held.first), end = std::max(held.end, first);
    snapshot.first[i] = first;
    const size_t at = snapshot.bytes.size();
    snapshot.bytes.resize(at + (end - first) * l.piece_bytes);
    for (size_t p = first; p < end; ++p) std::memcpy(snapshot.bytes.data() + at + (p - first) * l.piece_bytes, cache.piece(i, p), l.piece_bytes);
  }
  return snapshot;
}

void restore_ring_snapshot(KvCache& cache, const RingSnapshot& snapshot) {
  cache.go_back(snapshot.n_tokens, snapshot.first);
  const std::byte* from = snapshot.bytes.data();
  for (size_t i = 0; i < cache.layout().n_layers(); ++i) {
    const KvLayerLayout& l = cache.layout().layer(i);
    if (!l.is_ring) continue;
    for (size_t p = snapshot.first[i]; p < end_piece(snapshot.n_tokens); ++p, from += l.piece_bytes) std::memcpy(cache.piece(i, p), from, l.piece_bytes);
  }
}

}  // namespace quern
