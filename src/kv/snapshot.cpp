// A piece is copied as it is; only the last one has rows to blank, and the codec does that, who alone knows where a row's bytes are.
#include "kv/snapshot.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "quant/kv_codec.h"

namespace quern {

void export_piece(const KvCache& cache, size_t layer, size_t piece, std::byte* out) {
  const KvLayerLayout& l = cache.layout().layer(layer);
  const KvLayoutOptions& options = cache.layout().options();
  std::memcpy(out, cache.piece(layer, piece), l.piece_bytes);
  const size_t first = piece * kPiecePositions;
  if (cache.n_tokens() >= first + kPiecePositions) return;
  const std::vector<float> zeros(std::max(l.geometry.k_dim, l.geometry.v_dim), 0.0f);
  for (size_t head = 0; head < l.geometry.n_kv_heads; ++head) {
    for (size_t row = cache.n_tokens() - first; row < kPiecePositions; ++row) {
      kv_store_k(options.k_type, zeros.data(), l.geometry.k_dim, out + l.k_offset(head), row);
      if (l.geometry.v_dim) kv_store_v(options.v_type, zeros.data(), l.geometry.v_dim, out + l.v_offset(head), row);
    }
  }
}

void export_frames(const KvCache& cache, size_t layer, std::byte* out) {
  const KvLayerLayout& l = cache.layout().layer(layer);
  std::memcpy(out, cache.frames(layer), l.frames_bytes);
  if (cache.n_tokens() >= kHeadPositions || l.frame_bytes == 0) return;
  const size_t dim = l.geometry.k_dim;
  for (size_t head = 0; head < l.geometry.n_kv_heads; ++head) {
    const KeyFrame frame = kv_frame_at(out + head * l.frame_bytes, dim);
    for (size_t position = cache.n_tokens(); position < kHeadPositions; ++position) {
      for (size_t d = 0; d < dim; ++d) frame.keys[d * kHeadPositions + position] = frame.query_squares[position * dim + d] = 0;
    }
    for (float* x : {frame.mean, frame.to_stored, frame.to_query}) std::fill_n(x, dim, 0.0f);
    std::fill_n(frame.n_pairs, 1 + dim / 2, uint16_t(0));
  }
}

}  // namespace quern
