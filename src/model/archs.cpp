// The table of architectures.
#include "model/archs.h"

namespace quern {
namespace {

constexpr ArchSpec kArchs[] = {
    {.name = "arcee", .rope = RopePairing::kInterleaved, .activation = Activation::kReluSquared},
    {.name = "baichuan", .rope = RopePairing::kInterleaved, .alibi_max_bias = 8.0f, .alibi_layers = 40},
    {.name = "bloom", .rope = RopePairing::kNone, .activation = Activation::kGelu, .norm = NormKind::kLayer, .alibi_max_bias = 8.0f},
    {.name = "chatglm", .rope = RopePairing::kInterleaved},
    {.name = "codeshell", .activation = Activation::kGelu, .norm = NormKind::kLayer},
    {.name = "cohere2", .rope = RopePairing::kInterleaved, .norm = NormKind::kLayer, .window_pattern = 4, .rope_in_windows_only = true},
    {.name = "command-r", .rope = RopePairing::kInterleaved, .norm = NormKind::kLayer},
    {.name = "deepseek2", .rope = RopePairing::kInterleaved},
    {.name = "dots1"},
    {.name = "ernie4_5", .rope = RopePairing::kInterleaved},
    {.name = "ernie4_5-moe", .rope = RopePairing::kInterleaved, .normalise_experts = true},
    {.name = "exaone"},
    {.name = "exaone4", .window_pattern = 4, .rope_in_windows_only = true},
    {.name = "falcon", .activation = Activation::kGelu, .norm = NormKind::kLayer},
    {.name = "gemma", .activation = Activation::kGelu, .scale_embedding = true},
    {.name = "gemma2", .activation = Activation::kGelu, .scale_embedding = true, .window_pattern = 2, .default_window = 4096, .attention_softcap = 50.0f, .logit_softcap = 30.0f, .width_scaled_layers = 46},
    {.name = "gemma3", .activation = Activation::kGelu, .scale_embedding = true, .window_pattern = 6, .local_rope_base = 10000.0f, .width_scaled_layers = 62},
    {.name = "glm4", .rope = RopePairing::kInterleaved},
    {.name = "glm4moe", .expert_gating = ExpertGating::kSigmoid},
    {.name = "gpt-oss", .activation = Activation::kClampedSwiglu, .window_pattern = 2, .expert_gating = ExpertGating::kSoftmaxChosen},
    {.name = "gpt2", .rope = RopePairing::kNone, .activation = Activation::kGelu, .norm = NormKind::kLayer},
    {.name = "gptneox", .activation = Activation::kGelu, .norm = NormKind::kLayer},
    {.name = "granite", .rope = RopePairing::kInterleaved, .divide_logits = true, .finetuned_key_is_rope = true},
    {.name = "granitemoe", .rope = RopePairing::kInterleaved, .divide_logits = true, .normalise_experts = true},
    {.name = "hunyuan-dense", .qk_norm_after_rope = true},
    {.name = "hunyuan-moe", .qk_norm_after_rope = true, .normalise_experts = true},
    {.name = "internlm2", .rope = RopePairing::kInterleaved},
    {.name = "llama", .rope = RopePairing::kInterleaved, .normalise_experts = true},
    {.name = "maincoder", .rope = RopePairing::kInterleaved, .qk_norm_after_rope = true},
    {.name = "minicpm", .rope = RopePairing::kInterleaved, .embedding_scale = 12.0f, .depth_scale = 1.4f, .base_width = 256, .divide_logits = true},
    {.name = "mpt", .rope = RopePairing::kNone, .activation = Activation::kGelu, .norm = NormKind::kLayer},
    {.name = "nemotron", .activation = Activation::kReluSquared, .norm = NormKind::kLayer},
    {.name = "olmo", .rope = RopePairing::kInterleaved, .norm = NormKind::kLayer, .bare_norms = true},
    {.name = "olmo2", .window_pattern = 4, .plain_rope_in_windows = true},
    {.name = "olmoe"},
    {.name = "orion", .norm = NormKind::kLayer},
    {.name = "pangu-embedded"},
    {.name = "phi2", .activation = Activation::kGelu, .norm = NormKind::kLayer},
    {.name = "phi3"},
    {.name = "plamo"},
    {.name = "qwen", .ff_counts_both = true},
    {.name = "qwen2"},
    {.name = "qwen2moe"},
    {.name = "qwen2vl"},
    {.name = "qwen3"},
    {.name = "qwen3moe", .normalise_experts = true},
    {.name = "qwen3vl"},
    {.name = "refact", .rope = RopePairing::kNone, .alibi_max_bias = 8.0f},
    {.name = "seed_oss"},
    {.name = "smollm3", .rope = RopePairing::kInterleaved, .no_rope_pattern = 4},
    {.name = "stablelm", .norm = NormKind::kLayer},
    {.name = "starcoder", .rope = RopePairing::kNone, .activation = Activation::kGelu, .norm = NormKind::kLayer},
    {.name = "starcoder2", .activation = Activation::kGelu, .norm = NormKind::kLayer},
    {.name = "xverse", .rope = RopePairing::kInterleaved},
};

}  // namespace

const ArchSpec* find_arch(std::string_view name) {
  for (const ArchSpec& arch : kArchs) {
    if (arch.name == name) return &arch;
  }
  return nullptr;
}

std::span<const ArchSpec> all_archs() { return kArchs; }

std::string arch_names() {
  std::string names;
  for (const ArchSpec& arch : kArchs) names += (names.empty() ? "" : ", ") + std::string(arch.name);
  return names;
}

}  // namespace quern
