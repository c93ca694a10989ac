// The buffers of a forward step, sized once for the widest step and reused. Rows of several sequences lie one after another.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/aligned.h"
#include "kernels/kernels.h"
#include "model/params.h"

namespace quern::ops {

/// The rows that flow from stage to stage: residual stream, its normalised form, and that form in int8.
struct RowBuffers {
  AlignedBuffer<float> x;          ///< [n_tokens, n_embd] residual stream
  AlignedBuffer<float> h;          ///< [n_tokens, widest input of a product]
  AlignedBuffer<int8_t> codes;     ///< [n_tokens, n_groups * 32]
  AlignedBuffer<kernels::ActGroup> groups;  ///< [n_tokens, n_groups]

  void resize(size_t n_tokens, size_t n_embd, size_t widest);
};

/// What a step's tokens take through their experts. A slot is a token at one of its experts; the slots of an expert lie together,
/// tokens ascending.
struct ExpertBuffers {
  AlignedBuffer<float> logits;     ///< [n_tokens, n_experts] of the router, then what it made of them
  AlignedBuffer<float> scores;     ///< [n_tokens, n_experts] what the choice goes by
  AlignedBuffer<uint32_t> ids;     ///< [n_tokens, n_used] best first
  AlignedBuffer<float> weights;    ///< [n_tokens, n_used]
  AlignedBuffer<float> shared_weight;  ///< [n_tokens]
  AlignedBuffer<uint32_t> slot;    ///< [n_tokens, n_used]
  AlignedBuffer<uint32_t> token;   ///< [n_slots]
  AlignedBuffer<uint32_t> first;   ///< [n_experts + 1] slots of an expert
  AlignedBuffer<uint32_t> active;  ///< experts that have slots: their number, then their ids
  RowBuffers in;                   ///< [n_slots, n_embd] the tokens' rows in the order of slots
  RowBuffers inner;                ///< [n_slots, n_ff]
  AlignedBuffer<float> gate, up;   ///< [n_slots, n_ff]
  AlignedBuffer<float> down;       ///< [n_slots, n_embd]

  void resize(size_t n_tokens, size_t n_experts, size_t n_used, size_t n_embd, size_t n_ff);
};

/// Between the latents of latent attention and what attention sees (see ops/latent.h).
struct LatentBuffers {
  RowBuffers low;                  ///< [n_tokens, q_rank]
  AlignedBuffer<float> queries;    ///< [n_tokens, n_heads, nope_dim + rope_dim]
  RowBuffers heads;                ///< [n_heads, n_tokens, nope_dim], later kv_rank
  AlignedBuffer<float> values;     ///< [n_tokens, n_heads, v_dim]

  void resize(size_t n_tokens, size_t n_heads, const LatentParams& latent);
};

struct Workspace {
  RowBuffers rows;
  AlignedBuffer<float> q, q_sink, k, v, attn;   ///< [n_tokens, heads * dim]
  AlignedBuffer<float> gate, up;   ///< [n_tokens, n_ff]
  AlignedBuffer<float> out;        ///< [n_tokens, n_embd] of a product that returns to the residual stream
  ExpertBuffers experts;
  LatentBuffers latent;
  AlignedBuffer<float> cos_sin;    ///< [n_ropes, n_tokens, n_pairs, 2]
  AlignedBuffer<float> cos_sin_sink;
  std::vector<AlignedBuffer<std::byte>> scratch;  ///< one per worker, for products
  AlignedBuffer<std::byte> attention;
  size_t n_tokens = 0;
  int n_workers = 0;

  /// Grows the buffers to a step of n_tokens rows; may throw std::bad_alloc. Cold: called before the team starts.
  void prepare(const ModelParams& params, size_t n_tokens, int n_workers);
};

}  // namespace quern::ops
