// Mixture of experts (arXiv 1701.06538): a router gives each token a few of many feed-forward parts. The tokens of a step are put in the
// order of their experts, so that each expert multiplies all of its tokens in one pass, and of the others nothing is read.
// The same bits however a prompt is cut: every product is by token, the choice breaks ties by the lowest id, and a token's outputs are
// summed best expert first, the shared expert last.
#pragma once
#include <cstdint>

#include "kernels/kernels.h"
#include "model/params.h"
#include "model/weights.h"
#include "ops/fault.h"
#include "ops/matmul.h"
#include "ops/workspace.h"
#include "parallel/team.h"

namespace quern::ops {

/// One token's choice. `logits` [n_experts] of the router, overwritten; `scores` [n_experts] is scratch; `choice_bias` may be null.
/// ids and weights [n_used] come best first; equal scores go to the lowest id.
void choose_experts(const kernels::VectorKernels& kernels, const RouterRule& rule, size_t n_experts, size_t n_used, float* logits, const float* choice_bias,
                    float* scores, uint32_t* ids, float* weights);

struct MoeArgs {
  const Experts* experts = nullptr;
  const LayerParams* layer = nullptr;
  const RouterRule* rule = nullptr;
  Activation activation = Activation::kSilu;
  const kernels::VectorKernels* vector = nullptr;
  MatmulContext matmul;            ///< of the step: its n_tokens
  ActInput input;                  ///< [n_tokens, n_embd]
  ExpertBuffers* buffers = nullptr;
  FirstFault* fault = nullptr;
  int router_place = 0, inner_place = 0;   ///< what a fault is marked as
};

// The stages, in order; every worker of the team calls each with the same arguments.

/// Router logits, choice, and the tokens' rows in the order of their experts.
void route(Worker& worker, const MoeArgs& args);
/// gate, up = W·x of each slot  [n_slots, n_ff]
void experts_up(Worker& worker, const MoeArgs& args);
/// down = W_down·(act(gate) · up)  [n_slots, n_embd]
void experts_down(Worker& worker, const MoeArgs& args);
/// out = Σ weight·down of a token, best expert first, then what `out` held (the shared expert) where has_shared.  `sum` = [n_tokens, n_embd] is
/// scratch.
void combine(Worker& worker, const MoeArgs& args, bool has_shared, float* sum, float* out);

}  // namespace quern::ops
