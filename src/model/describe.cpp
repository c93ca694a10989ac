// From the structures that a run uses, so that what is said is what would be computed.
#include "model/describe.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/weights.h"
#include "quern/error.h"

namespace quern {
namespace {

class Facts {
 public:
  explicit Facts(std::vector<ModelFact>& facts) : facts_(facts) {}
  void add(std::string what, std::string value) { facts_.push_back({std::move(what), std::move(value)}); }
  void add_if(bool there, std::string what, std::string value) {
    if (there) add(std::move(what), std::move(value));
  }

 private:
  std::vector<ModelFact>& facts_;
};

/// "8", or "4 to 8 by layer" where layers differ.
template <typename F>
std::string over_layers(const ModelParams& p, F number) {
  const auto [low, high] = std::minmax_element(p.layers.begin(), p.layers.end(), [&](const LayerParams& a, const LayerParams& b) { return number(a) < number(b); });
  return number(*low) == number(*high) ? fmt::format("{}", number(*low)) : fmt::format("{} to {} by layer", number(*low), number(*high));
}

std::string rotation_text(const ArchSpec& arch) {
  switch (arch.rope) {
    case RopePairing::kInterleaved: return "neighbouring dimensions turn together";
    case RopePairing::kHalf: return "dimension i turns with i + half";
    case RopePairing::kNone: break;
  }
  return "none";
}

std::string activation_text(Activation activation) {
  switch (activation) {
    case Activation::kSilu: return "SiLU";
    case Activation::kGelu: return "GELU (tanh form)";
    case Activation::kReluSquared: return "squared ReLU";
    case Activation::kClampedSwiglu: return "clamped SwiGLU";
  }
  return "";
}

std::string gating_text(ExpertGating gating) {
  switch (gating) {
    case ExpertGating::kSoftmax: return "softmax over all";
    case ExpertGating::kSigmoid: return "sigmoid";
    case ExpertGating::kSoftmaxChosen: return "softmax over the chosen";
  }
  return "";
}

void describe_row(const ArchSpec& arch, Facts facts) {
  facts.add("rotation", rotation_text(arch));
  facts.add("activation", activation_text(arch.activation));
  facts.add("norm", std::string(arch.norm == NormKind::kRms ? "RMS" : "layer norm") + (arch.bare_norms ? ", without weights" : ""));
  facts.add_if(arch.qk_norm_after_rope, "query and key norm", "after the rotation");
  facts.add_if(arch.scale_embedding, "embedding scale", "square root of the width");
  facts.add_if(arch.embedding_scale > 0, "embedding scale", fmt::format("{} without a key", arch.embedding_scale));
  facts.add_if(arch.depth_scale > 0, "residual scale", fmt::format("{} / sqrt(layers) without a key", arch.depth_scale));
  facts.add_if(arch.divide_logits, "logit scale", "a divisor");
  facts.add_if(arch.finetuned_key_is_rope, "no rotation", "where the key rope.scaling.finetuned is false");
  facts.add_if(arch.base_width != 0, "logit scale", fmt::format("width / {} without a key", arch.base_width));
  facts.add_if(arch.window_pattern != 0, "window", fmt::format("on all but every {}. layer without a key", arch.window_pattern));
  facts.add_if(arch.default_window != 0, "window", fmt::format("{} tokens without a key", arch.default_window));
  facts.add_if(arch.local_rope_base > 0, "rotation base", fmt::format("{} in windowed layers without a key", arch.local_rope_base));
  facts.add_if(arch.plain_rope_in_windows, "rotation", "not scaled in windowed layers");
  facts.add_if(arch.no_rope_pattern != 0, "no rotation", fmt::format("in every {}. layer", arch.no_rope_pattern));
  facts.add_if(arch.rope_in_windows_only, "no rotation", "in layers without a window");
  facts.add_if(arch.alibi_max_bias > 0, "ALiBi", arch.alibi_layers ? fmt::format("largest bias {} in models of {} layers", arch.alibi_max_bias, arch.alibi_layers)
                                                                   : fmt::format("largest bias {} without a key", arch.alibi_max_bias));
  facts.add_if(arch.attention_softcap > 0, "soft caps", fmt::format("{} on scores, {} on logits without keys", arch.attention_softcap, arch.logit_softcap));
  facts.add_if(arch.width_scaled_layers != 0, "attention scale", fmt::format("by the width a head in models of {} layers", arch.width_scaled_layers));
  facts.add_if(arch.expert_gating != ExpertGating::kSoftmax, "expert gating", gating_text(arch.expert_gating) + " without a key");
  facts.add_if(arch.normalise_experts, "expert weights", "divided by their sum without a key");
  facts.add_if(arch.ff_counts_both, "feed-forward width", "the key counts gate and up together");
}

std::string rope_text(const RopeParams& rope) {
  std::string text = fmt::format("base {}, {} dimensions", rope.base, rope.n_dims);
  if (rope.scaling == RopeScaling::kLinear) text += fmt::format(", linear factor {}", rope.factor);
  if (rope.scaling == RopeScaling::kYarn) text += fmt::format(", YaRN factor {} from {} tokens", rope.factor, rope.original_ctx);
  if (rope.attn_factor != 1.0f) text += fmt::format(", magnitude {}", rope.attn_factor);
  return text;
}

void describe_experts(const ModelParams& p, Facts& facts) {
  const auto has_experts = [](const LayerParams& l) { return l.n_experts != 0; };
  const auto first = std::find_if(p.layers.begin(), p.layers.end(), has_experts);
  if (first == p.layers.end()) return;
  facts.add("experts", fmt::format("{} of width {} in {} of {} layers; a token uses {}", first->n_experts, first->n_ff_expert, std::count_if(p.layers.begin(), p.layers.end(), has_experts),
                                   p.n_layers, first->n_experts_used));
  std::string rule = gating_text(p.router.gating);
  if (p.router.normalise) rule += ", weights divided by their sum";
  if (p.router.scale != 1) rule += fmt::format(", times {}", p.router.scale);
  if (p.router.n_groups_used < p.router.n_groups) rule += fmt::format(", from the best {} of {} groups", p.router.n_groups_used, p.router.n_groups);
  facts.add("router", rule);
}

void describe_keys(const ModelParams& p, Facts facts) {
  facts.add("layers", fmt::format("{}", p.n_layers));
  facts.add("width", fmt::format("{}", p.n_embd));
  facts.add("query heads", over_layers(p, [](const LayerParams& l) { return l.n_heads; }));
  facts.add("KV heads", over_layers(p, [](const LayerParams& l) { return l.n_kv_heads; }));
  facts.add("head size", over_layers(p, [](const LayerParams& l) { return l.k_dim; }));
  if (const LatentParams& latent = p.layers[0].latent) {
    facts.add("latent attention", fmt::format("rows of {} + {} rotated; a head's key has {} + {}, its value {}", latent.kv_rank, latent.rope_dim, latent.nope_dim, latent.rope_dim, latent.v_dim));
  }
  describe_experts(p, facts);
  facts.add("feed-forward width", over_layers(p, [](const LayerParams& l) { return l.n_ff; }));
  facts.add("vocabulary", fmt::format("{}", p.n_vocab));
  facts.add("trained context", fmt::format("{}", p.n_ctx_train));
  const auto with_window = [](const LayerParams& l) { return l.window != 0; };
  const auto turning = [](const LayerParams& l) { return l.rope != kNoRope; };
  const auto windowed = std::find_if(p.layers.begin(), p.layers.end(), with_window);
  if (windowed != p.layers.end()) {
    facts.add("window", fmt::format("{} tokens in {} of {} layers", windowed->window, std::count_if(p.layers.begin(), p.layers.end(), with_window), p.n_layers));
  }
  facts.add_if(p.unused_window != 0, "window", fmt::format("{} tokens stated, not applied", p.unused_window));
  const auto n_turning = std::count_if(p.layers.begin(), p.layers.end(), turning);
  if (n_turning > 0) {
    facts.add("rotation", rope_text(p.ropes[0]) + (size_t(n_turning) == p.layers.size() ? "" : fmt::format(", in {} of {} layers", n_turning, p.n_layers)));
    facts.add_if(p.ropes.size() > 1, "rotation in windows", rope_text(p.ropes.back()));
  }
  facts.add_if(!p.alibi_slopes.empty(), "ALiBi", p.alibi_slopes.empty() ? "" : fmt::format("slopes {:.3g} to {:.3g}", p.alibi_slopes.front(), p.alibi_slopes.back()));
  facts.add("attention scale", fmt::format("{:.6g}", p.attention_scale));
  facts.add_if(p.attention_softcap > 0, "soft cap of scores", fmt::format("{}", p.attention_softcap));
  facts.add_if(p.logit_softcap > 0, "soft cap of logits", fmt::format("{}", p.logit_softcap));
  facts.add_if(p.embedding_scale != 1, "embedding scale", fmt::format("{:.6g}", p.embedding_scale));
  facts.add_if(p.residual_scale != 1, "residual scale", fmt::format("{:.6g}", p.residual_scale));
  facts.add_if(p.logit_scale != 1, "logit scale", fmt::format("{:.6g}", p.logit_scale));
  facts.add_if(p.qkv_clamp > 0, "clamp", fmt::format("queries, keys and values within ±{}", p.qkv_clamp));
}

std::string head_norm_text(const Norm& norm, const LayerParams& lp) {
  if (norm.weight.size() == lp.k_dim) return "one for every head";
  return norm.span == lp.k_dim ? "a row for each head" : "over all heads at once";
}

std::string biases_text(const LayerWeights& w) {
  std::string text;
  for (const auto& [weight, name] : {std::pair(&w.q, "query"), {&w.k, "key"}, {&w.v, "value"}, {&w.o, "attention output"}, {&w.gate, "gate"}, {&w.up, "up"}, {&w.down, "down"}}) {
    if (!weight->bias.empty()) text += (text.empty() ? "" : ", ") + std::string(name);
  }
  return text;
}

void describe_tensors(const gguf::Header& header, const ModelParams& p, const ModelWeights& w, Facts facts) {
  const LayerWeights& layer = w.layers[0];
  const auto has = [&](std::string_view name) { return header.find_tensor(fmt::format("blk.0.{}.weight", name)) != nullptr; };
  facts.add("output matrix", w.output.data == w.token_embd.data ? "the embedding's" : "its own");
  facts.add_if(bool(w.position_embd), "positions", "learned");
  facts.add_if(bool(w.token_embd_norm), "norm of embeddings", "yes");
  facts.add_if(has("attn_qkv"), "query, key, value", "one tensor");
  facts.add_if(bool(layer.q_norm), "query and key norm", layer.q_norm ? head_norm_text(layer.q_norm, p.layers[0]) : "");
  facts.add("residual", layer.parallel ? "attention and feed-forward part side by side" : "attention, then feed-forward part");
  facts.add("norms", fmt::format("{}{}", layer.attn_norm || layer.ffn_norm ? "before" : "", layer.attn_post_norm || layer.ffn_post_norm ? (layer.attn_norm ? " and behind" : "behind") : ""));
  facts.add_if(bool(layer.up), "gate", !layer.gate ? "none" : has("ffn_gate") ? "a tensor" : "in one tensor with up");
  const auto routed = std::find_if(w.layers.begin(), w.layers.end(), [](const LayerWeights& l) { return bool(l.experts); });
  if (routed != w.layers.end()) {
    facts.add("shared expert", !routed->up ? "none" : routed->experts.shared_gate.empty() ? "yes" : "with a gate");
    facts.add_if(!routed->experts.choice_bias.empty(), "bias of the choice", "yes");
  }
  facts.add_if(!layer.sinks.empty(), "attention sinks", "learned");
  facts.add_if(bool(layer.latent), "latent expansions", layer.latent.transposed.empty() ? "a tensor each" : "in one tensor");
  for (const std::string& name : w.unused) facts.add("not used", gguf::quoted(name));
  const std::string biases = biases_text(layer);
  facts.add_if(!biases.empty(), "biases", biases);
  facts.add_if(!w.rope_factors.empty(), "rotation factors", "one set");
  facts.add_if(!w.rope_factors_long.empty(), "rotation factors", fmt::format("long beyond a context of {}, short up to it", p.ropes[0].original_ctx));
}

}  // namespace

ModelDescription describe_model(const gguf::Header& header) {
  ModelDescription out;
  try {
    const ModelParams params = read_params(header);
    out.architecture = std::string(params.arch->name);
    describe_row(*params.arch, Facts(out.row));
    describe_keys(params, Facts(out.keys));
    describe_tensors(header, params, load_weights(header, params), Facts(out.tensors));
  } catch (const Error& error) {
    out.refusal = error.what();
  }
  return out;
}

}  // namespace quern
