// Keys to numbers. Every size is checked for sense here, so that nothing later can divide by zero or overflow.
#include "model/params.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/trig.h"

namespace quern {
namespace {

constexpr uint64_t kMaxDim = 1u << 20;

/// Keys of one architecture: "llama.block_count" and so on.
class Keys {
 public:
  Keys(const gguf::Header& header, std::string_view arch) : header_(header), prefix_(std::string(arch) + ".") {}

  const gguf::Header& header() const { return header_; }
  std::string full(std::string_view key) const { return prefix_ + std::string(key); }

  std::optional<uint64_t> maybe_size(std::string_view key, uint64_t most = kMaxDim) const {
    const std::string name = full(key);
    const auto value = header_.get_uint(name);
    if (value && (*value == 0 || *value > most)) throw_error(ErrorKind::kModel, "{} is {}; allowed is 1 to {}", name, *value, most);
    return value;
  }
  uint64_t size(std::string_view key, uint64_t most = kMaxDim) const {
    const auto value = maybe_size(key, most);
    if (!value) missing(key);
    return *value;
  }
  [[noreturn]] void missing(std::string_view key) const { throw_error(ErrorKind::kModel, "the key {} is missing; a model of this architecture needs it", full(key)); }

  std::optional<float> maybe_float(std::string_view key) const {
    const std::string name = full(key);
    const auto value = header_.get_float(name);
    if (value && !std::isfinite(*value)) throw_error(ErrorKind::kModel, "{} is not a finite number", name);
    return value ? std::optional<float>(float(*value)) : std::nullopt;
  }
  std::optional<float> maybe_positive(std::string_view key) const {
    const auto value = maybe_float(key);
    if (value && !(*value > 0.0f)) throw_error(ErrorKind::kModel, "{} is {}; it must be greater than 0", full(key), *value);
    return value;
  }

  bool flag(std::string_view key, bool otherwise) const { return header_.get_bool(full(key)).value_or(otherwise); }

  /// A number for each layer: from an array of n_layers, or one number for all. Empty when the key is absent.
  std::vector<uint64_t> per_layer(std::string_view key, size_t n_layers) const {
    const std::string name = full(key);
    const gguf::Value* value = header_.find(name);
    if (!value) return {};
    if (value->type != gguf::ValueType::Array) return std::vector<uint64_t>(n_layers, size(key));
    const gguf::Array& array = *header_.get_array(name);
    if (array.element_type == gguf::ValueType::String || array.size < n_layers) {
      throw_error(ErrorKind::kModel, "{} has {} entries of type {}; wanted are numbers for {} layers", name, array.size, gguf::value_type_name(array.element_type), n_layers);
    }
    std::vector<uint64_t> out(n_layers);
    for (size_t i = 0; i < n_layers; ++i) {
      const int64_t n = array.integer(i);
      if (n < 0 || uint64_t(n) > kMaxDim) throw_error(ErrorKind::kModel, "{}[{}] is {}; allowed is 0 to {}", name, i, n, kMaxDim);
      out[i] = uint64_t(n);
    }
    return out;
  }

 private:
  const gguf::Header& header_;
  std::string prefix_;
};

/// For each layer whether it has a window: from the file's pattern (a period or an array of flags), else the architecture's.
std::vector<bool> windowed_layers(const Keys& keys, const ArchSpec& arch, size_t n_layers) {
  constexpr std::string_view kPattern = "attention.sliding_window_pattern";
  const gguf::Value* pattern = keys.header().find(keys.full(kPattern));
  std::vector<bool> out(n_layers);
  if (pattern && pattern->type == gguf::ValueType::Array) {
    const std::vector<uint64_t> flags = keys.per_layer(kPattern, n_layers);
    for (size_t i = 0; i < n_layers; ++i) out[i] = flags[i] != 0;
    return out;
  }
  const uint64_t period = pattern ? keys.size(kPattern) : arch.window_pattern;
  for (size_t i = 0; i < n_layers; ++i) out[i] = period != 0 && i % period != period - 1;
  return out;
}

RopeScaling read_rope_scaling(const Keys& keys, bool has_factor) {
  const auto type = keys.header().get_string(keys.full("rope.scaling.type"));
  if (!type) return has_factor ? RopeScaling::kLinear : RopeScaling::kNone;
  if (*type == "none" || *type == "longrope") return RopeScaling::kNone;
  if (*type == "linear") return RopeScaling::kLinear;
  if (*type == "yarn") return RopeScaling::kYarn;
  throw_error(ErrorKind::kModel, "{} is {}; known are none, linear, yarn, longrope", keys.full("rope.scaling.type"), gguf::quoted(*type));
}

RopeParams read_rope(const Keys& keys, const ModelParams& p) {
  uint32_t head_dim = p.layers[0].k_dim;
  for (const LayerParams& layer : p.layers) head_dim = std::min(head_dim, layer.k_dim);
  RopeParams rope;
  rope.base = keys.maybe_float("rope.freq_base").value_or(10000.0f);
  if (!(rope.base > 1.0f)) throw_error(ErrorKind::kModel, "{} is {}; it must be greater than 1", keys.full("rope.freq_base"), rope.base);
  rope.n_dims = uint32_t(keys.maybe_size("rope.dimension_count").value_or(head_dim));
  if (rope.n_dims > head_dim || rope.n_dims % 2) {
    throw_error(ErrorKind::kModel, "{} is {}; allowed is an even number up to the head size {}", keys.full("rope.dimension_count"), rope.n_dims, head_dim);
  }
  auto factor = keys.maybe_float("rope.scaling.factor");
  if (!factor) factor = keys.maybe_float("rope.scale_linear");
  rope.scaling = read_rope_scaling(keys, factor.value_or(0.0f) > 0.0f);
  if (rope.scaling != RopeScaling::kNone && factor.value_or(0.0f) > 0.0f) rope.factor = *factor;
  rope.original_ctx = uint32_t(keys.maybe_size("rope.scaling.original_context_length", 1u << 30).value_or(p.n_ctx_train));
  rope.attn_factor = keys.maybe_positive("rope.scaling.attn_factor").value_or(1.0f);
  rope.yarn_beta_fast = keys.maybe_positive("rope.scaling.yarn_beta_fast").value_or(32.0f);
  rope.yarn_beta_slow = keys.maybe_positive("rope.scaling.yarn_beta_slow").value_or(1.0f);
  if (rope.scaling == RopeScaling::kYarn) rope.yarn_log_multiplier = keys.maybe_float("rope.scaling.yarn_log_multiplier").value_or(0.0f);
  return rope;
}

/// Slopes of ALiBi (arXiv 2108.12409, section 3): a geometric series that ends at 2^-max_bias; heads past a power of two get the odd
/// terms of the series with twice as many.
std::vector<float> alibi_slopes(float max_bias, uint32_t n_heads) {
  uint32_t power = 1;
  while (power * 2 <= n_heads) power *= 2;
  std::vector<float> slopes(n_heads);
  for (uint32_t head = 0; head < n_heads; ++head) {
    const double exponent = head < power ? double(head + 1) / power : double(2 * (head - power) + 1) / (2.0 * power);
    slopes[head] = float(pow_f64(2.0, -double(max_bias) * exponent));
  }
  return slopes;
}

void read_alibi(const Keys& keys, ModelParams& p) {
  const ArchSpec& arch = *p.arch;
  const bool by_row = arch.alibi_layers == 0 || arch.alibi_layers == p.n_layers;
  const float max_bias = keys.maybe_float("attention.max_alibi_bias").value_or(by_row ? arch.alibi_max_bias : 0.0f);
  if (max_bias > 0.0f) p.alibi_slopes = alibi_slopes(max_bias, p.layers[0].n_heads);
}

void read_ropes(const Keys& keys, ModelParams& p) {
  p.ropes.push_back(read_rope(keys, p));
  const ArchSpec& arch = *p.arch;
  const bool off_by_key = arch.finetuned_key_is_rope && !keys.flag("rope.scaling.finetuned", true);
  const bool any_window = std::any_of(p.layers.begin(), p.layers.end(), [](const LayerParams& layer) { return layer.window != 0; });
  for (size_t i = 0; i < p.layers.size(); ++i) {
    const bool off_by_place = arch.no_rope_pattern != 0 && i % arch.no_rope_pattern == arch.no_rope_pattern - 1;
    const bool off_by_sight = arch.rope_in_windows_only && any_window && p.layers[i].window == 0;
    if (arch.rope == RopePairing::kNone || !p.alibi_slopes.empty() || off_by_key || off_by_place || off_by_sight) p.layers[i].rope = kNoRope;
  }
  const float local_base = keys.maybe_positive("rope.freq_base_swa").value_or(arch.local_rope_base);
  if (local_base <= 0.0f && !(arch.plain_rope_in_windows && any_window)) return;
  // Local layers see a window only: their positions are never stretched.
  RopeParams local = p.ropes[0];
  if (local_base > 0.0f) local.base = local_base;
  local.scaling = RopeScaling::kNone;
  local.factor = local.attn_factor = 1.0f;
  p.ropes.push_back(local);
  for (LayerParams& layer : p.layers) {
    if (layer.window && layer.rope != kNoRope) layer.rope = 1;
  }
}

uint32_t read_n_vocab(const Keys& keys) {
  if (const gguf::Array* tokens = keys.header().get_array("tokenizer.ggml.tokens")) return uint32_t(std::min<uint64_t>(tokens->size, 1u << 30));
  return uint32_t(keys.size("vocab_size", 1u << 24));
}

/// Where the file has latent rows: attention sees one KV head of them.
void read_latent(const Keys& keys, ModelParams& p) {
  const auto kv_rank = keys.maybe_size("attention.kv_lora_rank", 4096);
  if (!kv_rank) return;
  LatentParams latent;
  latent.kv_rank = uint32_t(*kv_rank);
  latent.q_rank = uint32_t(keys.maybe_size("attention.q_lora_rank").value_or(0));
  latent.rope_dim = uint32_t(keys.size("rope.dimension_count", 4096));
  const auto full = [&](std::string_view newer, std::string_view older) { return keys.maybe_size(newer).value_or(0) ? *keys.maybe_size(newer) : keys.size(older); };
  const uint64_t k_dim = full("attention.key_length_mla", "attention.key_length");
  latent.v_dim = uint32_t(full("attention.value_length_mla", "attention.value_length"));
  if (k_dim <= latent.rope_dim) throw_error(ErrorKind::kModel, "a key of {} has {} rotated dimensions ({}); there must be others", k_dim, latent.rope_dim, keys.full("rope.dimension_count"));
  latent.nope_dim = uint32_t(k_dim) - latent.rope_dim;
  for (LayerParams& layer : p.layers) {
    layer.latent = latent;
    layer.n_kv_heads = 1;
    layer.k_dim = latent.kv_rank + latent.rope_dim;
    layer.v_dim = latent.kv_rank;
  }
}

void read_layers(const Keys& keys, ModelParams& p) {
  const auto heads = keys.per_layer("attention.head_count", p.n_layers);
  if (heads.empty()) keys.missing("attention.head_count");
  auto kv_heads = keys.per_layer("attention.head_count_kv", p.n_layers);
  if (kv_heads.empty()) kv_heads = heads;
  const auto n_ff = keys.per_layer("feed_forward_length", p.n_layers);
  if (n_ff.empty()) keys.missing("feed_forward_length");
  const auto k_dim = keys.maybe_size("attention.key_length"), v_dim = keys.maybe_size("attention.value_length");
  const uint32_t window = uint32_t(std::min<uint64_t>(keys.header().get_uint(keys.full("attention.sliding_window")).value_or(p.arch->default_window), 1u << 30));
  const std::vector<bool> windowed = window ? windowed_layers(keys, *p.arch, p.n_layers) : std::vector<bool>(p.n_layers);
  if (window && std::none_of(windowed.begin(), windowed.end(), [](bool on) { return on; })) p.unused_window = window;

  p.layers.resize(p.n_layers);
  for (size_t i = 0; i < p.n_layers; ++i) {
    LayerParams& layer = p.layers[i];
    if (heads[i] == 0 || kv_heads[i] == 0 || heads[i] % kv_heads[i] != 0) {
      throw_error(ErrorKind::kModel, "layer {}: {} query heads and {} KV heads; the first must be a multiple of the second", i, heads[i], kv_heads[i]);
    }
    if (!k_dim && p.n_embd % heads[i] != 0) {
      throw_error(ErrorKind::kModel, "layer {}: the embedding length {} is not a multiple of {} heads, and {} is missing", i, p.n_embd, heads[i], keys.full("attention.key_length"));
    }
    layer.n_heads = uint32_t(heads[i]);
    layer.n_kv_heads = uint32_t(kv_heads[i]);
    layer.k_dim = uint32_t(k_dim.value_or(p.n_embd / heads[i]));
    layer.v_dim = uint32_t(v_dim.value_or(p.n_embd / heads[i]));
    layer.n_ff = uint32_t(n_ff[i] / (p.arch->ff_counts_both ? 2 : 1));
    layer.window = windowed[i] ? window : 0;
  }
  read_latent(keys, p);
}

float or_one(float scale) { return scale > 0.0f ? scale : 1.0f; }

void read_scales(const Keys& keys, ModelParams& p) {
  const ArchSpec& arch = *p.arch;
  // True square roots: exact on every machine.
  p.embedding_scale = keys.maybe_positive("embedding_scale").value_or(arch.scale_embedding ? __builtin_sqrtf(float(p.n_embd)) : or_one(arch.embedding_scale));
  p.residual_scale = keys.maybe_positive("residual_scale").value_or(or_one(arch.depth_scale / __builtin_sqrtf(float(p.n_layers))));
  p.logit_scale = keys.maybe_positive("logit_scale").value_or(arch.base_width ? float(p.n_embd) / float(arch.base_width) : 1.0f);
  if (arch.divide_logits) p.logit_scale = 1.0f / p.logit_scale;
  const LayerParams& first = p.layers[0];
  const uint32_t k_dim = first.latent ? first.latent.nope_dim + first.latent.rope_dim : first.k_dim;
  const uint32_t head_width = p.n_layers == arch.width_scaled_layers ? p.n_embd / first.n_heads : k_dim;
  p.attention_scale = keys.maybe_positive("attention.scale").value_or(1.0f / __builtin_sqrtf(float(head_width)));
  const float magnitude = float(1.0 + double(p.ropes[0].yarn_log_multiplier) * log_f64(p.ropes[0].factor));
  p.attention_scale *= magnitude * magnitude;
  p.attention_softcap = keys.maybe_float("attn_logit_softcapping").value_or(arch.attention_softcap);
  p.logit_softcap = keys.maybe_float("final_logit_softcapping").value_or(arch.logit_softcap);
}

ExpertGating read_gating(const Keys& keys, const ArchSpec& arch) {
  const uint64_t number = keys.header().get_uint(keys.full("expert_gating_func")).value_or(0);
  switch (number) {
    case 0: return arch.expert_gating;
    case 1: return ExpertGating::kSoftmax;
    case 2: return ExpertGating::kSigmoid;
    case 3: return ExpertGating::kSoftmaxChosen;
    default: throw_error(ErrorKind::kModel, "{} is {}; known are 1 (softmax), 2 (sigmoid) and 3 (softmax over the chosen)", keys.full("expert_gating_func"), number);
  }
}

RouterRule read_router(const Keys& keys, const ArchSpec& arch, uint32_t n_experts, uint32_t n_used) {
  RouterRule rule;
  rule.gating = read_gating(keys, arch);
  rule.normalise = keys.header().get_bool(keys.full("expert_weights_norm")).value_or(arch.normalise_experts);
  const float scale = keys.maybe_float("expert_weights_scale").value_or(0.0f);
  if (scale != 0.0f) rule.scale = scale;  // 0 is how converters write "none"
  rule.n_groups = uint32_t(keys.maybe_size("expert_group_count", kMostExpertGroups).value_or(1));
  if (n_experts % rule.n_groups) throw_error(ErrorKind::kModel, "{} is {}; it must divide the {} experts", keys.full("expert_group_count"), rule.n_groups, n_experts);
  rule.n_groups_used = uint32_t(keys.maybe_size("expert_group_used_count", rule.n_groups).value_or(rule.n_groups));
  const uint32_t n_open = n_experts / rule.n_groups * rule.n_groups_used;
  if (n_used > n_open) throw_error(ErrorKind::kModel, "{} is {}; the {} groups that a token may use hold {} experts", keys.full("expert_used_count"), n_used, rule.n_groups_used, n_open);
  return rule;
}

/// Which layers have experts is seen from their routers; how many, from the keys.
void read_experts(const Keys& keys, ModelParams& p) {
  const auto tensor = [&](size_t layer, std::string_view name) { return keys.header().find_tensor(fmt::format("blk.{}.{}", layer, name)); };
  for (size_t i = 0; i < p.n_layers; ++i) {
    if (!tensor(i, "ffn_gate_inp.weight")) continue;
    LayerParams& layer = p.layers[i];
    layer.n_experts = uint32_t(keys.size("expert_count", 1u << 16));
    layer.n_experts_used = uint32_t(keys.size("expert_used_count", layer.n_experts));
    layer.n_ff_expert = uint32_t(keys.maybe_size("expert_feed_forward_length").value_or(layer.n_ff));
    layer.n_ff = 0;
    if (tensor(i, "ffn_up_shexp.weight")) {
      const uint64_t n_shared = keys.maybe_size("expert_shared_count", 1024).value_or(1);
      layer.n_ff = uint32_t(keys.maybe_size("expert_shared_feed_forward_length").value_or(n_shared * layer.n_ff_expert));
    }
    p.router = read_router(keys, *p.arch, layer.n_experts, layer.n_experts_used);
  }
}

}  // namespace

ModelParams read_params(const gguf::Header& header) {
  const auto arch_name = header.get_string("general.architecture");
  if (!arch_name) throw_error(ErrorKind::kModel, "the key general.architecture is missing; supported architectures: {}", arch_names());
  const ArchSpec* arch = find_arch(*arch_name);
  if (!arch) throw_error(ErrorKind::kModel, "architecture {} is not supported; supported: {}", gguf::quoted(*arch_name), arch_names());
  return read_params(header, *arch);
}

ModelParams read_params(const gguf::Header& header, const ArchSpec& arch) {
  ModelParams p;
  p.arch = &arch;
  const Keys keys(header, arch.name);
  p.name = std::string(header.get_string("general.name").value_or(""));
  p.n_layers = uint32_t(keys.size("block_count", 4096));
  const uint64_t n_guessing = keys.header().get_uint(keys.full("nextn_predict_layers")).value_or(0);
  if (n_guessing >= p.n_layers) throw_error(ErrorKind::kModel, "{} is {}; it must be less than the {} blocks", keys.full("nextn_predict_layers"), n_guessing, p.n_layers);
  p.n_guessing_layers = uint32_t(n_guessing);
  p.n_layers -= p.n_guessing_layers;
  p.n_embd = uint32_t(keys.size("embedding_length"));
  p.n_ctx_train = uint32_t(keys.size("context_length", 1u << 30));
  p.n_vocab = read_n_vocab(keys);
  const auto eps_key = p.arch->norm == NormKind::kRms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon";
  p.norm_eps = keys.maybe_positive(eps_key).value_or(1e-5f);
  read_layers(keys, p);
  read_alibi(keys, p);
  read_experts(keys, p);
  read_ropes(keys, p);
  read_scales(keys, p);
  p.qkv_clamp = keys.maybe_float("attention.clamp_kqv").value_or(0.0f);
  p.parallel_residual = keys.flag("use_parallel_residual", false);
  return p;
}

}  // namespace quern
