// What is remembered: the K and V rows of one token sequence. Address space for the whole context is reserved once and committed
// by use, piece by piece; rewinding gives whole pieces back. Only this room knows why a query sees one span or several.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/aligned.h"
#include "kv/layout.h"
#include "quant/kv_frame.h"

namespace quern {

/// A run of absolute positions [begin, end) that a query sees. `sink`: the query has to be rotated as if it stood at the position
/// that KvCache::sink_query_position gives (StreamingLLM by rotating the query, arXiv 2309.17453).
struct KvSpan {
  size_t begin = 0, end = 0;
  bool sink = false;
};

class KvCache {
 public:
  /// @throws Error(kRuntime) when the address space cannot be reserved (the size is named).
  explicit KvCache(KvLayout layout);
  ~KvCache();
  KvCache(const KvCache&) = delete;
  KvCache& operator=(const KvCache&) = delete;

  const KvLayout& layout() const { return layout_; }
  size_t n_tokens() const { return n_tokens_; }  ///< positions whose rows are complete

  /// Commits what positions [0, n_tokens) need, before a forward step writes them (cold, may throw kRuntime on lack of memory).
  void prepare(size_t n_tokens);
  /// @throws Error(kRuntime), naming both numbers, where [0, n_tokens) would take more than the limit or than the machine has left.
  void check_memory(size_t n_tokens) const;
  /// After a step: positions [0, n_tokens) are complete.
  void advance(size_t n_tokens) { n_tokens_ = n_tokens; }
  /// Forgets positions ≥ n_tokens and releases whole pieces. Returns false (and changes nothing) where a ring has
  /// overwritten rows that positions < n_tokens still need: the caller has to start again from 0.
  bool rewind(size_t n_tokens);
  /// Makes the cache one of n_tokens (≤ n_tokens()), where rewind() may have failed: the caller then copies in the pieces of the layers
  /// with rings, from `first[layer]` on (ring_snapshot.h).
  void go_back(size_t n_tokens, const std::vector<size_t>& first);
  /// The smallest n to which rewind(n) succeeds besides 0.
  size_t oldest_rewind() const;

  /// What a layer holds of positions < n_tokens(), as absolute piece numbers: the pinned ones [0, n_pinned), then [first, end).
  struct HeldPieces {
    size_t n_pinned = 0, first = 0, end = 0;
    size_t count() const { return n_pinned + end - first; }
    size_t operator[](size_t i) const { return i < n_pinned ? i : first + i - n_pinned; }
  };
  HeldPieces held_pieces(size_t layer) const;
  /// Makes an empty cache one of n_tokens, whose rows the caller then copies in: `first[layer]` is the first unpinned piece that there
  /// is. @throws as prepare().
  void restore(size_t n_tokens, const std::vector<size_t>& first);

  std::byte* piece(size_t layer, size_t piece) { return base_ + piece_offset(layer, piece); }
  const std::byte* piece(size_t layer, size_t piece) const { return base_ + piece_offset(layer, piece); }
  /// The key frame of a head (quant/kv_frame.h), where the K type has one.
  KeyFrame frame(size_t layer, size_t head) { return kv_frame_at(frames(layer) + head * layout_.layer(layer).frame_bytes, layout_.layer(layer).geometry.k_dim); }
  /// All frames of a layer, KvLayerLayout::frames_bytes.
  std::byte* frames(size_t layer) { return base_ + layout_.layer(layer).offset_bytes - layout_.layer(layer).frames_bytes; }
  const std::byte* frames(size_t layer) const { return base_ + layout_.layer(layer).offset_bytes - layout_.layer(layer).frames_bytes; }
  std::byte* k_block(size_t layer, size_t piece, size_t head) { return this->piece(layer, piece) + layout_.layer(layer).k_offset(head); }
  std::byte* v_block(size_t layer, size_t piece, size_t head) { return this->piece(layer, piece) + layout_.layer(layer).v_offset(head); }

  /// The spans that the query at absolute position `position` sees in a layer, ascending, at most kMaxSpans; returns how many.
  static constexpr size_t kMaxSpans = 2;
  size_t spans(size_t layer, size_t position, KvSpan* out) const;
  /// Where a query at `position` stands as seen from the sinks: min(position, sinks + window − 1).
  size_t sink_query_position(size_t position) const;
  bool has_sinks() const { return layout_.options().policy.sinks > 0; }

  // Eviction by use (ops/evict.h decides; the cache keeps what it decides by).

  /// Where a position is stored in a layer: itself, less what was evicted by use.
  size_t row(size_t layer, size_t position) const { return position - layout_.layer(layer).evicted(position); }
  /// Use and original position of every row of a head.
  struct HeadUse {
    float* use;
    uint32_t* positions;
  };
  HeadUse use(size_t layer, size_t head);
  /// Where the query of a head at `position` is kept until the next decision; null where no decision will ask for it.
  float* observed_query(size_t layer, size_t position, size_t head);
  /// A decision is due before the token at `position` is computed.
  bool needs_eviction(size_t position) const { return heavy_ > 0 && position >= heavy_ && n_decisions_ <= (position - heavy_) / kPiecePositions; }
  void evicted() { ++n_decisions_; }
  /// A step from `position` on has to end here at the latest, because a decision comes next.
  size_t step_end(size_t position) const;
  /// The largest n ≤ n_tokens to which rewind() leads without losing what the next decision looks at.
  size_t rewind_point(size_t n_tokens) const;

  uint64_t committed_bytes() const { return committed_bytes_; }

 private:
  uint64_t piece_offset(size_t layer, size_t piece) const {
    const KvLayerLayout& l = layout_.layer(layer);
    return l.offset_bytes + layout_.slot(layer, piece) * l.piece_bytes;
  }
  uint64_t missing_bytes(size_t n_tokens) const;
  void prepare_heavy();
  void commit(size_t layer, size_t n_slots);
  void release(size_t layer, size_t n_slots);

  KvLayout layout_;
  std::byte* base_ = nullptr;
  size_t n_tokens_ = 0;
  size_t high_water_ = 0;                ///< positions below it may have been written since the last start from 0
  std::vector<size_t> committed_slots_;  ///< per layer: slots [0, n) are committed
  std::vector<size_t> lost_pieces_;      ///< per layer: unpinned pieces before this one are not there (any more)
  uint64_t committed_bytes_ = 0;

  struct HeavyLayer {
    AlignedBuffer<float> queries;        ///< [kObservedQueries, n_heads, k_dim]
    std::vector<float> use;              ///< [n_kv_heads, heavy]
    std::vector<uint32_t> positions;     ///< [n_kv_heads, heavy]
  };
  size_t heavy_ = 0;                     ///< KvLayerLayout::heavy, the same on all layers that have it; 0: nothing will be evicted by use
  size_t n_decisions_ = 0;
  std::vector<HeavyLayer> heavy_layers_; ///< per layer
};

}  // namespace quern
