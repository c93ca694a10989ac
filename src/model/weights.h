// A model's tensors by role, found by name, their shapes checked. Matrices stay in the mapped file; norms and biases, which are
// small, are decoded to float32 once. A fused tensor (qkv, gate and up) appears as its parts, so that nothing later knows.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "gguf/gguf.h"
#include "model/params.h"
#include "quant/format.h"

namespace quern {

/// A matrix [n_rows, n_cols] in the file; y = W·x (+ bias).
struct Weight {
  TensorType type = TensorType::F32;
  const std::byte* data = nullptr;   ///< null: the model has none
  size_t row_bytes = 0;
  size_t n_rows = 0, n_cols = 0;
  std::vector<float> bias;           ///< [n_rows], or empty
  explicit operator bool() const { return data != nullptr; }
};

/// A norm: its weight (and bias for layer norm), or neither where it has none of its own; span 0: no norm.
struct Norm {
  std::vector<float> weight, bias;
  size_t span = 0;                   ///< values normalised together: all of the weight, or less where each head has a row of its own
  explicit operator bool() const { return span > 0; }
};

/// Latent attention (see ops/latent.h).
struct Latent {
  Weight q_down;                     ///< [q_rank, n_embd]; absent: q_up multiplies the layer's input
  Norm q_norm;                       ///< [q_rank]
  Weight q_up;                       ///< [n_heads * (nope_dim + rope_dim), q_rank or n_embd]
  Weight kv_down;                    ///< [kv_rank + rope_dim, n_embd]
  Norm kv_norm;                      ///< [kv_rank]
  std::vector<Weight> k_up;          ///< [n_heads] of [kv_rank, nope_dim]: a query as the latent rows are seen by it
  std::vector<Weight> v_up;          ///< [n_heads] of [v_dim, kv_rank]
  std::vector<float> transposed;     ///< what k_up points to where the file has it the other way round
  explicit operator bool() const { return bool(kv_down); }
};

/// Feed-forward parts of which a token uses a few, and the router that chooses them.
struct Experts {
  Weight router;                     ///< [n_experts, n_embd]
  std::vector<float> choice_bias;    ///< [n_experts] added for the choice only, or empty
  std::vector<Weight> gate, up, down;  ///< [n_experts]; gate may be absent
  std::vector<float> shared_gate;    ///< [n_embd] the shared expert's weight is the sigmoid of its product with the input; empty: 1
  explicit operator bool() const { return bool(router); }
};

struct LayerWeights {
  Norm attn_norm;                    ///< [n_embd] before attention
  Weight q, k, v, o;                 ///< of latent attention only o
  Latent latent;
  std::vector<float> sinks;          ///< [n_heads] logits that take part in the softmax and have no value; empty: none
  Norm q_norm, k_norm;               ///< [head_dim] for every head, [n_heads * head_dim] over all, [n_heads, head_dim] each its own
  Norm attn_post_norm;               ///< [n_embd] after attention, before the residual
  bool parallel = false;             ///< the feed-forward part reads what attention reads, before its result is added
  Norm ffn_norm;                     ///< [n_embd]; a parallel layer without one shares attn_norm
  Weight gate, up, down;             ///< what every token goes through: beside experts the shared ones, if any; gate may be absent
  Experts experts;
  Norm ffn_post_norm;
};

struct ModelWeights {
  Weight token_embd;                 ///< [n_vocab, n_embd]
  Weight position_embd;              ///< [n_ctx_train, n_embd] learned positions, added to the token's row
  Norm token_embd_norm;              ///< [n_embd] before the first layer
  Norm output_norm;
  Weight output;                     ///< [n_vocab, n_embd]; the embedding where the file has none
  std::vector<float> rope_factors;   ///< rope_freqs.weight, or empty
  std::vector<float> rope_factors_long, rope_factors_short;
  std::vector<LayerWeights> layers;
  std::vector<std::string> unused;   ///< tensors of the file that no role above asked for, and that are not known to be idle
};

/// The matrices that every step with logits reads from end to end, in its order: experts are not among them.
std::vector<const Weight*> step_weights(const ModelWeights& weights);

/// @throws Error(kModel): a missing tensor, a wrong shape (found and wanted), a type that cannot be computed with (both named).
ModelWeights load_weights(const gguf::Header& header, const ModelParams& params);

}  // namespace quern
