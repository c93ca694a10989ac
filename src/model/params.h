// A model's numbers, as its file states them: sizes, per-layer geometry, rope. Plain data; knows nothing of weights.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gguf/gguf.h"
#include "model/archs.h"

namespace quern {

enum class RopeScaling : uint8_t { kNone, kLinear, kYarn };

/// One way of rotating; windowed layers may have another than the rest.
struct RopeParams {
  float base = 10000.0f;
  uint32_t n_dims = 0;                ///< rotated dimensions of a head (even)
  RopeScaling scaling = RopeScaling::kNone;
  float factor = 1.0f;                ///< positions are divided by it
  uint32_t original_ctx = 0;
  float attn_factor = 1.0f;           ///< scales cosine and sine
  float yarn_beta_fast = 32.0f, yarn_beta_slow = 1.0f;
  float yarn_log_multiplier = 0.0f;   ///< not 0: the magnitude goes to the attention scale, as (1 + this·ln factor)², not to cosine and sine
};

inline constexpr uint8_t kNoRope = 0xff;  ///< LayerParams::rope of a layer that does not rotate

/// Latent attention (MLA, arXiv 2405.04434): what a head's full key and value would be, and the row that stands for them.
struct LatentParams {
  uint32_t kv_rank = 0;               ///< of the row that all heads share; 0: the layer has ordinary attention
  uint32_t q_rank = 0;                ///< of the queries' own; 0: they are made in one product
  uint32_t nope_dim = 0;              ///< of a head's key, not rotated
  uint32_t rope_dim = 0;              ///< of a head's key, rotated and the same for all heads
  uint32_t v_dim = 0;                 ///< of a head's value
  explicit operator bool() const { return kv_rank != 0; }
};

struct LayerParams {
  uint32_t n_heads = 0, n_kv_heads = 0;
  uint32_t k_dim = 0, v_dim = 0;      ///< per head, as attention sees them: of a latent row its own size, and its part that is the value
  LatentParams latent;
  uint32_t n_ff = 0;                  ///< of the part that every token goes through (of shared experts, beside experts); 0: none
  uint32_t n_experts = 0;             ///< 0: a dense layer
  uint32_t n_experts_used = 0;        ///< by one token
  uint32_t n_ff_expert = 0;
  uint32_t window = 0;                ///< 0: sees everything
  uint8_t rope = 0;                   ///< index into ModelParams::ropes, or kNoRope
};

inline constexpr uint32_t kMostExpertGroups = 256;

/// How a token finds its experts and what they weigh.
struct RouterRule {
  ExpertGating gating = ExpertGating::kSoftmax;
  bool normalise = false;             ///< the weights of the chosen experts are divided by their sum
  float scale = 1.0f;                 ///< times every weight, last
  uint32_t n_groups = 1;              ///< experts stand in groups of equal size …
  uint32_t n_groups_used = 1;         ///< … and are chosen from the best of these only
};

struct ModelParams {
  const ArchSpec* arch = nullptr;
  std::string name;                   ///< general.name, or empty
  uint32_t n_layers = 0, n_embd = 0, n_vocab = 0;
  uint32_t n_guessing_layers = 0;    ///< blocks behind the last layer that guess further tokens: they take no part in what the model says
  uint32_t n_ctx_train = 0;
  float norm_eps = 1e-5f;
  float embedding_scale = 1.0f;
  float residual_scale = 1.0f;        ///< times what attention and feed-forward part add to the residual stream
  float logit_scale = 1.0f;
  float qkv_clamp = 0.0f;             ///< q, k and v are held within ± this; 0: are not
  bool parallel_residual = false;     ///< attention and feed-forward part both read the layer's input
  float attention_scale = 1.0f;       ///< times q·k
  float attention_softcap = 0.0f;     ///< 0: none
  std::vector<float> alibi_slopes;    ///< [n_heads] what a position further back costs a score (ALiBi), or empty
  float logit_softcap = 0.0f;
  uint32_t unused_window = 0;         ///< a window that the file states and that is not applied, see ArchSpec::window_pattern
  RouterRule router;
  std::vector<RopeParams> ropes;      ///< [0] for full layers, [1] for windowed ones where they differ
  std::vector<LayerParams> layers;
};

/// @throws Error(kModel): unknown architecture (with those that are supported), a missing or senseless key (named, with the value).
ModelParams read_params(const gguf::Header& header);
/// The same with a row of the caller's choice.
ModelParams read_params(const gguf::Header& header, const ArchSpec& arch);

}  // namespace quern
