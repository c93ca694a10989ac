// What neither the GGUF keys nor the presence of tensors can say about an architecture: one row each, the only place in the
// source where an architecture has a name.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace quern {

enum class RopePairing : uint8_t {
  kInterleaved,  ///< (x[2i], x[2i+1])
  kHalf,         ///< (x[i], x[i + n/2]), "NeoX"
  kNone          ///< no rotary embedding
};
enum class Activation : uint8_t {
  kSilu,
  kGelu,
  kReluSquared,
  kClampedSwiglu  ///< silu with its slope and limits set, times up + 1 (gpt-oss)
};
enum class NormKind : uint8_t { kRms, kLayer };
/// How a token's router logits become the weights of its experts.
enum class ExpertGating : uint8_t {
  kSoftmax,        ///< over all experts, then the best are chosen
  kSigmoid,        ///< each expert for itself
  kSoftmaxChosen   ///< the best are chosen by their logits, then a softmax over these
};

struct ArchSpec {
  std::string_view name;              ///< general.architecture
  RopePairing rope = RopePairing::kHalf;
  Activation activation = Activation::kSilu;
  NormKind norm = NormKind::kRms;
  bool bare_norms = false;            ///< norms without weights, so that no tensor stands for them
  bool qk_norm_after_rope = false;    ///< query and key heads are normalised after they are turned
  bool scale_embedding = false;       ///< token embeddings times sqrt(n_embd)
  float embedding_scale = 0.0f;       ///< where the file gives none; 0: none
  float depth_scale = 0.0f;           ///< residual scale times sqrt(n_layers) where the file gives none; 0: none
  uint32_t base_width = 0;            ///< logits are divided by n_embd / base_width where the file gives no scale; 0: by 1
  bool ff_counts_both = false;        ///< the key feed_forward_length counts the rows of gate and up together
  uint32_t window_pattern = 0;        ///< without a key: layer i sees everything when i % n == n−1, the others a window; 0: the window
                                      ///< (if the file has one) is not used
  uint32_t default_window = 0;        ///< where the file gives none
  uint32_t no_rope_pattern = 0;       ///< layer i has no rotation when i % n == n−1; 0: all layers rotate
  bool rope_in_windows_only = false;  ///< in a model with windows, layers that see everything have no rotation
  bool plain_rope_in_windows = false; ///< windowed layers rotate without the file's scaling
  float local_rope_base = 0.0f;       ///< rope base of windowed layers when the file has none; 0: as the others
  float alibi_max_bias = 0.0f;        ///< where the file gives none; 0: no ALiBi
  uint32_t alibi_layers = 0;          ///< 0, or: only a model of so many layers has ALiBi, and then no rotation
  float attention_softcap = 0.0f;     ///< where the file gives none; 0: none
  float logit_softcap = 0.0f;
  uint32_t width_scaled_layers = 0;   ///< a model of so many layers scales q·k by the width a head, 1/sqrt(n_embd / n_heads), not by
                                      ///< the head size, and no key says so
  bool divide_logits = false;         ///< the key logit_scale is a divisor
  bool finetuned_key_is_rope = false; ///< the key rope.scaling.finetuned, where false, means no rotation at all
  ExpertGating expert_gating = ExpertGating::kSoftmax;  ///< without a key
  bool normalise_experts = false;     ///< without a key: the weights of the chosen experts are divided by their sum
};

/// The row of an architecture, or nullptr.
const ArchSpec* find_arch(std::string_view name);
std::span<const ArchSpec> all_archs();
/// All names, for messages.
std::string arch_names();

}  // namespace quern
