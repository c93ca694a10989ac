// Pieces of a cache on their way to a file and back. What a file gets depends on the tokens alone: rows that a longer sequence left
// behind the end are blanked. Knows nothing of files.
#pragma once
#include <cstddef>

#include "kv/cache.h"

namespace quern {

/// Raise it when the same rows come to be stored as other bytes: files written before are refused then.
inline constexpr uint32_t kKvRowFormat = 2;

/// Copies a held piece to `out` [piece_bytes], rows of positions ≥ n_tokens() as stored zeros.
void export_piece(const KvCache& cache, size_t layer, size_t piece, std::byte* out);

/// Copies a layer's key frames to `out` [frames_bytes], without what positions ≥ n_tokens() left there.
void export_frames(const KvCache& cache, size_t layer, std::byte* out);

}  // namespace quern
