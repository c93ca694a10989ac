// The arithmetic of the cache's layout: block and piece sizes, rings, slots, and the sums that the report prints.
#include "kv/layout.h"

#include <algorithm>

#include "base/check.h"
#include "base/rounding.h"
#include "quant/kv_frame.h"

namespace quern {
namespace {

constexpr size_t kPageBytes = 4096;
constexpr size_t kLeastHeavy = 2 * kPiecePositions;  // a decision frees one piece and has to leave another
constexpr size_t kMaxDim = 4096;  // a row of the codec

}  // namespace

KvLayout::KvLayout(const std::vector<KvLayerGeometry>& layers, const KvLayoutOptions& options) : options_(options) {
  QUERN_CHECK(options.n_ctx > 0 && options.max_chunk > 0, "n_ctx {} max_chunk {}", options.n_ctx, options.max_chunk);
  if (options.policy.sinks > 0 && options.policy.window == 0) {
    throw_error(ErrorKind::kUsage, "{} sink tokens without a window: sinks are kept beside a window; give its size too", options.policy.sinks);
  }
  if (options.policy.heavy > 0 && options.policy.window > 0) throw_error(ErrorKind::kUsage, "a window of {} tokens and {} heavy hitters are two policies; give one", options.policy.window, options.policy.heavy);
  const size_t all_pieces = ceil_div(options.n_ctx, kPiecePositions);
  for (const KvLayerGeometry& geometry : layers) {
    if (geometry.k_dim > kMaxDim || geometry.v_dim > kMaxDim) {
      throw_error(ErrorKind::kModel, "a key or value head of {} elements: a cache row holds at most {}", std::max(geometry.k_dim, geometry.v_dim), kMaxDim);
    }
    KvLayerLayout layer;
    layer.geometry = geometry;
    const bool user_window = options.policy.window > 0 && (geometry.window == 0 || options.policy.window < geometry.window);
    layer.window = user_window ? options.policy.window : geometry.window;
    layer.sinks = user_window ? options.policy.sinks : 0;
    layer.k_block_bytes = kv_block_bytes(options.k_type, geometry.k_dim);
    layer.v_block_bytes = kv_block_bytes(options.v_type, geometry.v_dim);
    layer.k_row_bytes = kv_row_size(options.k_type, geometry.k_dim).bytes();
    layer.v_row_bytes = geometry.v_dim ? kv_row_size(options.v_type, geometry.v_dim).bytes() : 0;
    layer.piece_bytes = round_up(geometry.n_kv_heads * (layer.k_block_bytes + layer.v_block_bytes), kPageBytes);
    // A frame knows keys by their position, and eviction by use moves them; keys that hold values have to read back as they are.
    layer.frame_bytes = options.policy.heavy > 0 || geometry.v_dim == 0 ? 0 : kv_frame_bytes(options.k_type, geometry.k_dim);
    layer.frames_bytes = round_up(geometry.n_kv_heads * layer.frame_bytes, kPageBytes);
    layer.n_pieces = all_pieces;
    if (options.policy.heavy > 0 && layer.window == 0) {
      layer.heavy = std::max(round_up(options.policy.heavy, kPiecePositions), kLeastHeavy);
      layer.n_pieces = std::min(all_pieces, layer.heavy / kPiecePositions);
    }
    if (layer.window > 0) {
      const size_t ring = ceil_div(layer.window + options.max_chunk, kPiecePositions) + 1, pinned = ceil_div(layer.sinks, kPiecePositions);
      if (pinned + ring < all_pieces || options.policy.window > 0) {  // a user's window makes the sequence endless
        layer.n_pinned = pinned;
        layer.n_pieces = pinned + ring;
        layer.is_ring = true;
      }
    }
    layer.offset_bytes = reserved_bytes_ + layer.frames_bytes;
    reserved_bytes_ += layer.bytes_with_slots(layer.n_pieces);
    layers_.push_back(layer);
  }
}

uint64_t KvLayout::bytes_per_token() const {
  uint64_t sum = 0;
  for (const KvLayerLayout& l : layers_) sum += l.token_bytes();
  return sum;
}

uint64_t KvLayout::bytes_per_token_formula() const {
  uint64_t bits = 0;
  for (const KvLayerLayout& l : layers_) {
    const KvLayerGeometry& g = l.geometry;
    bits += uint64_t(g.n_kv_heads) * (g.k_dim * kv_element_bits(options_.k_type) + g.v_dim * kv_element_bits(options_.v_type));
  }
  return (bits + 7) / 8;
}

uint64_t KvLayout::used_bytes(size_t n_tokens) const {
  uint64_t sum = 0;
  for (const KvLayerLayout& l : layers_) sum += l.token_bytes() * l.held_tokens(n_tokens) + (n_tokens ? l.geometry.n_kv_heads * l.frame_bytes : 0);
  return sum;
}

uint64_t KvLayout::committed_bytes(size_t n_tokens) const {
  uint64_t sum = 0;
  for (const KvLayerLayout& l : layers_) sum += l.bytes_with_slots(l.slots_for(n_tokens));
  return sum;
}

uint64_t KvLayout::heavy_bytes() const {
  uint64_t sum = 0;
  for (const KvLayerLayout& l : layers_) sum += l.heavy_bytes();
  return sum;
}

size_t KvLayerLayout::held_tokens(size_t n_tokens) const {
  if (heavy > 0) return n_tokens == 0 ? 0 : n_tokens - evicted(n_tokens - 1);
  return window == 0 ? n_tokens : std::min(n_tokens, size_t(window) + sinks);
}

size_t KvLayerLayout::slots_for(size_t n_tokens) const { return std::min(n_pieces, ceil_div(n_tokens, kPiecePositions)); }

}  // namespace quern
