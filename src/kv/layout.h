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
};

/// What the user asks of the cache on top of the model's own windows.
struct KvPolicy {
  uint32_t window = 0;   ///< keep the last N tokens (and the sinks); 0: keep all
  uint32_t sinks = 0;    ///< keep the first S tokens for ever; only with window
  uint32_t heavy = 0;    ///< keep about N tokens, those that attention uses most; 0: off
};

struct KvLayoutOptions {
  KvType k_type = KvType::kF16;
  KvType v_type = KvType::kF16;
  size_t n_ctx = 0;      ///< tokens
  size_t max_chunk = 512;  ///< most tokens of one forward step (slack of the rings)
  KvPolicy policy;
};

struct KvLayerLayout {
  KvLayerGeometry geometry;
  size_t k_block_bytes = 0;   ///< one head, 256 positions
  size_t v_block_bytes = 0;
  size_t piece_bytes = 0;     ///< heads × (k + v), a multiple of the page size
  size_t n_pinned = 0;        ///< pieces at the start that a ring never overwrites (sinks)
  size_t n_pieces = 0;        ///< slots: all pieces of the context, or pinned ones and the ring
  bool is_ring = false;
  uint64_t offset_bytes = 0;  ///< of slot 0 in the reservation
  uint32_t window() const { return geometry.window; }
};

class KvLayout {
 public:
  KvLayout() = default;
  KvLayout(const std::vector<KvLayerGeometry>& layers, const KvLayoutOptions& options);

  const KvLayoutOptions& options() const { return options_; }
  size_t n_layers() const { return layers_.size(); }
  const KvLayerLayout& layer(size_t i) const { return layers_[i]; }

  /// Slot of an absolute piece number in a layer.
  size_t slot(size_t layer, size_t piece) const;
  /// Bytes of codes and scales that one more token adds over all layers (windowed layers included).
  uint64_t bytes_per_token() const;
  /// 2·L·H_kv·D_h·bytes of the element alone, scales not counted.
  uint64_t bytes_per_token_formula() const;
  /// Address space of all slots.
  uint64_t reserved_bytes() const { return reserved_bytes_; }
  /// Bytes that n_tokens really occupy (rows still held, after windows and policy).
  uint64_t used_bytes(size_t n_tokens) const;
  /// Bytes committed (whole pieces) once n_tokens are in the cache.
  uint64_t committed_bytes(size_t n_tokens) const;

 private:
  KvLayoutOptions options_;
  std::vector<KvLayerLayout> layers_;
  uint64_t reserved_bytes_ = 0;
};

}  // namespace quern
