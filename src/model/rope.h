// Rotary position embedding as numbers: inverse frequencies of a model's way(s) of rotating, and the cosines and sines of a
// position. RoPE (arXiv 2104.09864), linear scaling, YaRN (2309.00071), llama3 and longrope by per-pair factors.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "model/archs.h"
#include "model/params.h"
#include "quant/kv_frame.h"

namespace quern {

struct RopeTable {
  std::vector<double> inv_freq;   ///< [n_dims / 2], scaling and factors applied
  float magnitude = 1.0f;         ///< scales cosine and sine
  // Angles alone, without the magnitude, for keys that are stored relative to a frame; empty until add_frame_angles.
  std::vector<float> offsets;     ///< [n_pairs][2][kPiecePositions], as KeyTurn wants them
  std::vector<float> pieces;      ///< [pieces][n_pairs][2], of each piece's first position
  size_t n_pairs() const { return inv_freq.size(); }
};

/// `factors`: rope_freqs.weight or the long/short factors that fit the context, one divisor a pair; empty: none.
RopeTable make_rope_table(const RopeParams& params, std::span<const float> factors);

/// Fills `offsets`, and `pieces` as far as n_positions (or as much of it as is worth a table); what is there stays.
void add_frame_angles(RopeTable& table, size_t n_positions);
/// Cosine and sine [n_pairs][2] of a piece's first position: from the table, or put into `scratch` for a piece past its end.
const float* rope_piece_angles(const RopeTable& table, size_t piece, float* scratch);
/// How keys turn by this table.
KeyTurn key_turn(const RopeTable& table, RopePairing pairing);

/// cos_sin = [n_pairs][2] for one position.
void rope_cos_sin(const RopeTable& table, size_t position, float* cos_sin);

}  // namespace quern
