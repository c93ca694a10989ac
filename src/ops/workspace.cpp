// Sizes only.
#include "ops/workspace.h"

#include <algorithm>

#include "ops/matmul.h"

namespace quern::ops {

void RowBuffers::resize(size_t n_tokens, size_t n_embd, size_t widest) {
  const size_t n_groups = kernels::act_groups(widest);
  x.resize(n_tokens * n_embd);
  h.resize(n_tokens * widest);
  codes.resize(n_tokens * n_groups * kernels::kActGroup);
  groups.resize(n_tokens * n_groups);
}

void ExpertBuffers::resize(size_t n_tokens, size_t n_experts, size_t n_used, size_t n_embd, size_t n_ff) {
  const size_t n_slots = n_tokens * n_used;
  logits.resize(n_tokens * n_experts);
  scores.resize(n_tokens * n_experts);
  ids.resize(n_slots);
  weights.resize(n_slots);
  shared_weight.resize(n_tokens);
  slot.resize(n_slots);
  token.resize(n_slots);
  first.resize(n_experts + 1);
  active.resize(n_experts + 1);
  in.resize(n_slots, 0, n_embd);
  inner.resize(n_slots, 0, n_ff);
  gate.resize(n_slots * n_ff);
  up.resize(n_slots * n_ff);
  down.resize(n_slots * n_embd);
}

void LatentBuffers::resize(size_t n_tokens, size_t n_heads, const LatentParams& latent) {
  low.resize(n_tokens, 0, latent.q_rank);
  queries.resize(n_tokens * n_heads * (latent.nope_dim + latent.rope_dim));
  heads.resize(n_tokens * n_heads, 0, std::max(latent.nope_dim, latent.kv_rank));
  values.resize(n_tokens * n_heads * latent.v_dim);
}

void Workspace::prepare(const ModelParams& params, size_t tokens, int workers) {
  if (tokens <= n_tokens && workers <= n_workers) return;
  n_tokens = std::max(n_tokens, tokens);
  n_workers = std::max(n_workers, workers);
  size_t n_q = 0, n_k = 0, n_v = 0, n_attn = 0, n_ff = 0, n_experts = 0, n_used = 0, n_ff_expert = 0, n_low = 0, n_pairs = 0;
  for (const LayerParams& l : params.layers) {
    n_q = std::max(n_q, size_t(l.n_heads) * l.k_dim);
    n_k = std::max(n_k, size_t(l.n_kv_heads) * l.k_dim);
    n_v = std::max(n_v, size_t(l.n_kv_heads) * l.v_dim);
    n_attn = std::max(n_attn, size_t(l.n_heads) * l.v_dim);
    n_ff = std::max(n_ff, size_t(l.n_ff));
    n_experts = std::max(n_experts, size_t(l.n_experts));
    n_used = std::max(n_used, size_t(l.n_experts_used));
    n_ff_expert = std::max(n_ff_expert, size_t(l.n_ff_expert));
    if (l.latent) latent.resize(n_tokens, l.n_heads, l.latent);
    n_low = std::max({n_low, size_t(l.latent.q_rank), size_t(l.n_heads) * l.latent.v_dim});
  }
  for (const RopeParams& rope : params.ropes) n_pairs = std::max(n_pairs, size_t(rope.n_dims / 2));
  const size_t widest = std::max({size_t(params.n_embd), n_attn, n_ff, n_low});
  rows.resize(n_tokens, params.n_embd, widest);
  q.resize(n_tokens * n_q);
  q_sink.resize(n_tokens * n_q);
  k.resize(n_tokens * n_k);
  v.resize(n_tokens * n_v);
  attn.resize(n_tokens * n_attn);
  gate.resize(n_tokens * n_ff);
  up.resize(n_tokens * n_ff);
  out.resize(n_tokens * params.n_embd);
  if (n_experts) experts.resize(n_tokens, n_experts, n_used, params.n_embd, n_ff_expert);
  cos_sin.resize(params.ropes.size() * n_tokens * n_pairs * 2);
  cos_sin_sink.resize(params.ropes.size() * n_tokens * n_pairs * 2);
  scratch.resize(size_t(n_workers));
  for (AlignedBuffer<std::byte>& bytes : scratch) bytes.resize(matmul_scratch_bytes(n_tokens, std::max(widest, n_ff_expert)));
}

}  // namespace quern::ops
