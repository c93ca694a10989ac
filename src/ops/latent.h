// Latent attention (MLA, DeepSeek-V2, arXiv 2405.04434). A token's keys and values for all heads are one short row: a latent that every
// head would expand to its own key and value, and one rotated key part that the heads share. The cache holds that row alone, and
// nothing is expanded: a head's query goes through the transposed expansion once and is then compared with the rows as they are, and
// the mean of the rows goes through the expansion of values afterwards. So attention sees one KV head of
// kv_rank + rope_dim, whose values are the first kv_rank dimensions of its keys.
#pragma once
#include "kernels/kernels.h"
#include "model/params.h"
#include "model/weights.h"
#include "ops/fault.h"
#include "ops/matmul.h"
#include "ops/workspace.h"
#include "parallel/team.h"

namespace quern::ops {

/// Turns the pairs of one head in place.
using RopeFunction = void (*)(float* x, const float* cos_sin, size_t n_pairs);

struct LatentArgs {
  const Latent* weights = nullptr;
  const LayerParams* layer = nullptr;
  float norm_eps = 0.0f;
  const kernels::VectorKernels* vector = nullptr;
  MatmulContext matmul;             ///< of the step: its n_tokens
  RopeFunction rope = nullptr;
  const float* cos_sin = nullptr;   ///< [n_tokens, rope_dim / 2, 2]
  const float* cos_sin_sink = nullptr;  ///< the same as the sinks see the tokens; null without sinks
  LatentBuffers* buffers = nullptr;
  FirstFault* fault = nullptr;
  int queries_place = 0, values_place = 0;  ///< what a fault is marked as
};

// The stages, in order; every worker of the team calls each with the same arguments.

/// h to the queries as the latent rows are seen by them, and to the rows: q = [n_tokens, n_heads, kv_rank + rope_dim], q_sink the same for
/// the sinks (or null), k = [n_tokens, kv_rank + rope_dim].
void latent_queries(Worker& worker, const LatentArgs& args, const ActInput& h, float* q, float* q_sink, float* k);
/// attn [n_tokens, n_heads, kv_rank] to each head's own values: out = [n_tokens, n_heads, v_dim].
void latent_values(Worker& worker, const LatentArgs& args, const float* attn, float* out);

}  // namespace quern::ops
