// Rotary position embedding as numbers: inverse frequencies of a model's way(s) of rotating, and the cosines and sines of a
// position. RoPE (arXiv 2104.09864), linear scaling, YaRN (2309.00071), llama3 and longrope by per-pair factors.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "model/params.h"

namespace quern {

struct RopeTable {
  std::vector<double> inv_freq;   ///< [n_dims / 2], scaling and factors applied
  float magnitude = 1.0f;         ///< scales cosine and sine
  size_t n_pairs() const { return inv_freq.size(); }
};

/// `factors`: rope_freqs.weight or the long/short factors that fit the context, one divisor a pair; empty: none.
RopeTable make_rope_table(const RopeParams& params, std::span<const float> factors);

/// cos_sin = [n_pairs][2] for one position.
void rope_cos_sin(const RopeTable& table, size_t position, float* cos_sin);

}  // namespace quern
