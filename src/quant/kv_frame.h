// What quantized keys are stored relative to. A model's keys have a large part that hardly depends on the token (Qwen's bias, or simply a
// mean), turned by the position. The softmax needs it exactly, but codes of few bits spend themselves on it; and a dimension that
// queries look at closely deserves a finer code than one that they ignore. So, for every KV head of a sequence (KIVI, arXiv 2402.02750,
// shows the outlying channels; here they are taken from the sequence itself, nothing is calibrated beforehand):
//   the first kHeadPositions keys are kept in f16, as they are (attention sinks need it most);
//   from them, once they are complete, come a mean key, turned back to position 0, and a scale for each dimension;
//   every later key k at position p is stored as (k − R(p)·mean) / scale, and a query q meets it as q·scale;
//   the scores get the exact term q·R(p)·mean back, which needs only the pairs of dimensions where the mean stands out.
// A frame depends on the first positions alone: not on chunks, threads or what comes later.
#pragma once
#include <cstddef>
#include <cstdint>

#include "quant/kv_format.h"

namespace quern {

inline constexpr size_t kHeadPositions = 16;  ///< positions whose keys are kept in f16: one K tile

/// Which dimensions of a key turn together, and by how much.
struct KeyTurn {
  size_t n_pairs = 0;              ///< 0: keys do not turn; dimensions past the pairs never do
  bool interleaved = false;        ///< pair i is (2i, 2i+1), else (i, i + n_pairs)
  const float* offsets = nullptr;  ///< [n_pairs][2][kPiecePositions] cosine and sine of the angle at 0…255
  size_t first(size_t pair) const { return interleaved ? 2 * pair : pair; }
  size_t second(size_t pair) const { return interleaved ? 2 * pair + 1 : pair + n_pairs; }
  float cosine(size_t pair, size_t offset) const { return offsets[2 * pair * kPiecePositions + offset]; }
  float sine(size_t pair, size_t offset) const { return offsets[(2 * pair + 1) * kPiecePositions + offset]; }
};

/// The frame of one KV head, as it lies in memory.
struct KeyFrame {
  uint16_t* keys;           ///< [dim][kHeadPositions] f16, a K tile
  uint16_t* query_squares;  ///< [kHeadPositions][dim] bf16: Σ over the head's queries of q²
  float* mean;              ///< [dim] at position 0; zero where it does not stand out
  float* to_stored;         ///< [dim] 1/scale
  float* to_query;          ///< [dim] scale
  uint16_t* n_pairs;        ///< pairs with a mean, in pairs[0…]
  uint16_t* pairs;          ///< [dim / 2]
};

bool kv_type_is_framed(KvType type);  ///< int8, fp8 and int4 keys are
/// Bytes of a head's frame, a multiple of 64; 0 where the type has none.
size_t kv_frame_bytes(KvType k_type, size_t dim);
KeyFrame kv_frame_at(std::byte* bytes, size_t dim);

/// Keeps a key and the squares of the queries [n_queries][dim] at the same position, which is below kHeadPositions.
void kv_frame_add(const KeyFrame& frame, size_t dim, size_t position, const float* key, const float* queries, size_t n_queries);
/// Mean, scales and pairs, once the last of the first positions is there.
void kv_frame_complete(const KeyFrame& frame, KvType k_type, size_t dim, const KeyTurn& turn);

/// key = (key − R(p)·mean) / scale. `angles` = cosine and sine [n_pairs][2] of the piece's first position; offset = p's place in the piece.
void kv_frame_remove(const KeyFrame& frame, size_t dim, const KeyTurn& turn, const float* angles, size_t offset, float* key);
/// The reverse, for tests and tools.
void kv_frame_restore(const KeyFrame& frame, size_t dim, const KeyTurn& turn, const float* angles, size_t offset, float* key);
/// The query's part of q·R(p)·mean = constant + Σ cos(p·θ)·a + sin(p·θ)·b over the frame's pairs; a and b have n_pairs values.
void kv_frame_query_terms(const KeyFrame& frame, size_t dim, const KeyTurn& turn, const float* query, float* constant, float* a, float* b);

}  // namespace quern
