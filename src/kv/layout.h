// How a cache lies in memory, as numbers only: asked by the allocator and by the report alike, so the two cannot disagree.
// A layer is one contiguous run of pieces; a piece is 256 absolute positions [256n, 256(n+1)):
//   [K head 0][K head 1]…[V head 0][V head 1]…, each block as quant/kv_format.h says.
#pragma once
#include <cstdint>
#include <vector>

#include "quant/kv_format.h"

namespace quern {

struct KvLayerGeometry {
  uint32_t n_kv_heads = 0;
  uint32_t k_dim = 0;    ///< per head
  uint32_t v_dim = 0;    ///< per head; 0 for a layer without values of its own
  uint32_t window = 0;   ///< the model's sliding window in tokens (position i sees i−window+1 … i); 0: everything
  uint32_t n_heads = 0;  ///< query heads; asked where eviction by use watches queries
};

/// Queries before a piece boundary that eviction by use watches.
inline constexpr size_t kObservedQueries = 16;

/// What the user asks of the cache on top of the model's own windows.
struct KvPolicy {
  uint32_t window = 0;   ///< keep the last N tokens (and the sinks); 0: keep all
  uint32_t sinks = 0;    ///< keep the first S tokens for ever; only with window
  uint32_t heavy = 0;    ///< keep about N tokens, those that attention uses most; 0: off
};

struct KvLayoutOptions {
  KvType k_type = KvType::kF16;
  KvType v_type = KvType::kF16;
  size_t n_ctx = 0;      ///< tokens; no bound where the policy has a window
  size_t max_chunk = 512;  ///< most tokens of one forward step (slack of the rings)
  KvPolicy policy = {};
  uint64_t memory_limit_bytes = 0;  ///< KvCache::prepare refuses to commit more; 0: what the machine has
};

struct KvLayerLayout {
  KvLayerGeometry geometry;
  uint32_t window = 0;        ///< tokens that a query sees, itself included: the model's or the user's, the smaller; 0: everything
  uint32_t sinks = 0;         ///< first tokens that it sees besides, where the window is the user's
  size_t k_block_bytes = 0;   ///< one head, 256 positions
  size_t v_block_bytes = 0;
  size_t k_row_bytes = 0;     ///< codes and scales of one head at one position
  size_t v_row_bytes = 0;
  size_t piece_bytes = 0;     ///< heads × (k + v), a multiple of the page size
  size_t n_pinned = 0;        ///< pieces at the start that a ring never overwrites (sinks)
  size_t n_pieces = 0;        ///< slots: all pieces of the context, or pinned ones and the ring
  bool is_ring = false;
  size_t heavy = 0;           ///< rows at most, where those that attention uses least are evicted; 0: none are. Whole pieces
  size_t frame_bytes = 0;     ///< of one head's key frame (quant/kv_frame.h); 0 where the K type has none, or where rows move (heavy)
  size_t frames_bytes = 0;    ///< of all heads, a multiple of the page size; they stand right before slot 0
  uint64_t offset_bytes = 0;  ///< of slot 0 in the reservation

  /// Where a head's block begins in a piece.
  size_t k_offset(size_t head) const { return head * k_block_bytes; }
  size_t v_offset(size_t head) const { return geometry.n_kv_heads * k_block_bytes + head * v_block_bytes; }
  /// Frames and the first n slots.
  uint64_t bytes_with_slots(size_t n) const { return n == 0 ? 0 : frames_bytes + uint64_t(n) * piece_bytes; }
  /// Codes and scales that one token adds to the layer.
  uint64_t token_bytes() const { return uint64_t(geometry.n_kv_heads) * (k_row_bytes + v_row_bytes); }
  /// Rows evicted by use before the query at `position`: a piece's worth before position `heavy`, and before every 256th one after it. What
  /// is left moves together, so that position p is stored in row p − evicted(p).
  size_t evicted(size_t position) const { return heavy == 0 || position < heavy ? 0 : ((position - heavy) / kPiecePositions + 1) * kPiecePositions; }
  /// Bytes of the queries that are watched, and of the use and the position of every row.
  uint64_t heavy_bytes() const { return heavy == 0 ? 0 : (kObservedQueries * geometry.n_heads * geometry.k_dim + 2 * heavy * geometry.n_kv_heads) * sizeof(float); }
  /// Tokens of n_tokens that later queries can still see.
  size_t held_tokens(size_t n_tokens) const;
  /// Slots that hold something once n_tokens were written; slots fill in ascending order.
  size_t slots_for(size_t n_tokens) const;
  /// Slot of an absolute piece number.
  size_t slot(size_t piece) const { return piece < n_pieces ? piece : n_pinned + (piece - n_pinned) % (n_pieces - n_pinned); }
};

class KvLayout {
 public:
  KvLayout() = default;
  /// @throws Error(kUsage) for sinks without a window, Error(kModel) for a head size that no row can hold.
  KvLayout(const std::vector<KvLayerGeometry>& layers, const KvLayoutOptions& options);

  const KvLayoutOptions& options() const { return options_; }
  size_t n_layers() const { return layers_.size(); }
  const KvLayerLayout& layer(size_t i) const { return layers_[i]; }

  /// Slot of an absolute piece number in a layer.
  size_t slot(size_t layer, size_t piece) const { return layers_[layer].slot(piece); }
  /// Bytes of codes and scales that one more token adds over all layers (windowed layers included).
  uint64_t bytes_per_token() const;
  /// 2·L·H_kv·D_h·bytes of the element alone, scales not counted.
  uint64_t bytes_per_token_formula() const;
  /// Address space of all slots.
  uint64_t reserved_bytes() const { return reserved_bytes_; }
  /// Bytes that n_tokens really occupy (rows still held, after windows and policy, and the frames of their keys).
  uint64_t used_bytes(size_t n_tokens) const;
  /// Bytes that eviction by use needs besides, from the start.
  uint64_t heavy_bytes() const;
  /// Bytes committed (whole pieces) once n_tokens are in the cache.
  uint64_t committed_bytes(size_t n_tokens) const;

 private:
  KvLayoutOptions options_;
  std::vector<KvLayerLayout> layers_;
  uint64_t reserved_bytes_ = 0;
};

}  // namespace quern
