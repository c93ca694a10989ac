// Names to roles. What no role asks for is remembered, so that the user hears of it.
#include "model/weights.h"

#include <fmt/ranges.h>

#include <set>

#include "base/check.h"
#include "quant/decode.h"

namespace quern {
namespace {

std::string computable_formats() {
  std::string names;
  for (const FormatInfo& format : all_formats()) {
    if (format.can_decode) names += (names.empty() ? "" : ", ") + std::string(format.name);
  }
  return names;
}

class Loader {
 public:
  Loader(const gguf::Header& header, NormKind norm) : header_(header), norm_(norm) {}

  bool has(const std::string& name) const { return header_.find_tensor(name) != nullptr; }

  /// A matrix [n_rows, n_cols] with its bias, if there is one.
  Weight matrix(const std::string& stem, size_t n_rows, size_t n_cols) const {
    const gguf::TensorInfo& tensor = require(stem + ".weight", {n_cols, n_rows});
    Weight w;
    w.type = tensor.type;
    w.data = tensor.data.data();
    w.row_bytes = row_bytes(tensor.type, n_cols);
    w.n_rows = n_rows;
    w.n_cols = n_cols;
    w.bias = vector(stem + ".bias", n_rows, false);
    return w;
  }
  Weight maybe_matrix(const std::string& stem, size_t n_rows, size_t n_cols) const {
    return has(stem + ".weight") ? matrix(stem, n_rows, n_cols) : Weight{};
  }
  /// n matrices [n_rows, n_cols] one behind the other.
  std::vector<Weight> stack(const std::string& stem, size_t n, size_t n_rows, size_t n_cols) const {
    const gguf::TensorInfo& tensor = require(stem + ".weight", {n_cols, n_rows, n});
    Weight all;
    all.type = tensor.type;
    all.data = tensor.data.data();
    all.row_bytes = row_bytes(tensor.type, n_cols);
    all.n_cols = n_cols;
    if (has(stem + ".bias")) all.bias = floats(require(stem + ".bias", {n_rows, n}), n_rows * n);
    std::vector<Weight> out;
    for (size_t i = 0; i < n; ++i) out.push_back(rows(all, i * n_rows, n_rows));
    return out;
  }
  /// One matrix an expert, from a tensor of all (named stem_exps) or, in old files, one tensor each; empty when absent and not required.
  std::vector<Weight> expert_matrices(const std::string& stem, size_t n_experts, size_t n_rows, size_t n_cols, bool required) const {
    std::vector<Weight> experts;
    if (has(stem + ".0.weight")) {
      for (size_t i = 0; i < n_experts; ++i) experts.push_back(matrix(fmt::format("{}.{}", stem, i), n_rows, n_cols));
      return experts;
    }
    const std::string name = stem + "_exps";
    if (!required && !has(name + ".weight")) return {};
    return stack(name, n_experts, n_rows, n_cols);
  }
  /// Rows [first, first + n_rows) of a matrix, with their part of the bias.
  static Weight rows(const Weight& whole, size_t first, size_t n_rows) {
    Weight w;
    w.type = whole.type;
    w.data = whole.data + first * whole.row_bytes;
    w.row_bytes = whole.row_bytes;
    w.n_rows = n_rows;
    w.n_cols = whole.n_cols;
    if (!whole.bias.empty()) w.bias.assign(whole.bias.begin() + ptrdiff_t(first), whole.bias.begin() + ptrdiff_t(first + n_rows));
    return w;
  }

  /// A row of numbers as float32; empty when absent and not required.
  std::vector<float> vector(const std::string& name, size_t n, bool required) const {
    if (!required && !has(name)) return {};
    return floats(require(name, {n}), n);
  }
  Norm norm(const std::string& stem, size_t n, bool required) const {
    Norm out;
    if (!required && !has(stem + ".weight")) return out;
    out.weight = vector(stem + ".weight", n, true);
    if (norm_ == NormKind::kLayer) out.bias = vector(stem + ".bias", n, false);
    out.span = n;
    return out;
  }
  /// A row of weights for each head.
  Norm norm_of_heads(const std::string& stem, size_t n_heads, size_t head_dim) const {
    const gguf::TensorInfo& tensor = require(stem + ".weight", {head_dim, n_heads});
    Norm out;
    out.span = head_dim;
    out.weight.resize(n_heads * head_dim);
    for (size_t head = 0; head < n_heads; ++head) decode_row(tensor.type, tensor.data.data() + head * row_bytes(tensor.type, head_dim), out.weight.data() + head * head_dim, head_dim);
    return out;
  }
  /// Names of the tensors that nothing above has read.
  std::vector<std::string> unused() const {
    std::vector<std::string> names;
    for (const gguf::TensorInfo& tensor : header_.tensors) {
      if (!used_.count(&tensor)) names.emplace_back(tensor.name);
    }
    return names;
  }
  /// Dimension i of a tensor (0 is the innermost), 0 where there is none.
  size_t dim(const std::string& name, size_t i) const {
    const gguf::TensorInfo* tensor = header_.find_tensor(name);
    return tensor && tensor->dims.size() > i ? size_t(tensor->dims[i]) : 0;
  }

 private:
  static std::vector<float> floats(const gguf::TensorInfo& tensor, size_t n) {
    std::vector<float> out(n);
    decode_row(tensor.type, tensor.data.data(), out.data(), n);
    return out;
  }
  const gguf::TensorInfo& require(const std::string& name, const std::vector<uint64_t>& dims) const {
    const gguf::TensorInfo* tensor = header_.find_tensor(name);
    if (!tensor) throw_error(ErrorKind::kModel, "the tensor {} is missing; a model of this architecture needs it", name);
    std::vector<uint64_t> found = tensor->dims;
    while (found.size() > dims.size() && found.back() == 1) found.pop_back();
    if (found != dims) throw_error(ErrorKind::kModel, "the tensor {} has shape [{}]; wanted is [{}]", name, fmt::join(tensor->dims, ", "), fmt::join(dims, ", "));
    if (!tensor->format->can_decode) throw_error(ErrorKind::kModel, "the tensor {} is of type {}, which quern cannot compute with; it can with {}", name, tensor->format->name, computable_formats());
    used_.insert(tensor);
    return *tensor;
  }

  const gguf::Header& header_;
  NormKind norm_;
  mutable std::set<const gguf::TensorInfo*> used_;
};

/// A [kv_rank, nope_dim] matrix for each head out of [nope_dim, kv_rank], as float32.
void transpose_k_up(const Weight& kv_up, const LayerParams& p, Latent& latent) {
  const size_t rank = p.latent.kv_rank, nope = p.latent.nope_dim, per_head = nope + p.latent.v_dim;
  latent.transposed.resize(p.n_heads * rank * nope);
  std::vector<float> row(rank);
  for (size_t head = 0; head < p.n_heads; ++head) {
    float* out = latent.transposed.data() + head * rank * nope;
    for (size_t n = 0; n < nope; ++n) {
      decode_row(kv_up.type, kv_up.data + (head * per_head + n) * kv_up.row_bytes, row.data(), rank);
      for (size_t r = 0; r < rank; ++r) out[r * nope + n] = row[r];
    }
    Weight w;
    w.data = reinterpret_cast<const std::byte*>(out);
    w.row_bytes = nope * sizeof(float);
    w.n_rows = rank;
    w.n_cols = nope;
    latent.k_up.push_back(w);
  }
}

void load_latent(const Loader& load, const std::string& blk, const ModelParams& params, const LayerParams& p, Latent& latent) {
  const LatentParams& l = p.latent;
  const size_t n_queries = size_t(p.n_heads) * (l.nope_dim + l.rope_dim);
  if (l.q_rank && load.has(blk + "attn_q_a.weight")) {
    latent.q_down = load.matrix(blk + "attn_q_a", l.q_rank, params.n_embd);
    latent.q_norm = load.norm(blk + "attn_q_a_norm", l.q_rank, true);
    latent.q_up = load.matrix(blk + "attn_q_b", n_queries, l.q_rank);
  } else {
    latent.q_up = load.matrix(blk + "attn_q", n_queries, params.n_embd);
  }
  latent.kv_down = load.matrix(blk + "attn_kv_a_mqa", l.kv_rank + l.rope_dim, params.n_embd);
  latent.kv_norm = load.norm(blk + "attn_kv_a_norm", l.kv_rank, true);
  if (load.has(blk + "attn_k_b.weight")) {
    latent.k_up = load.stack(blk + "attn_k_b", p.n_heads, l.kv_rank, l.nope_dim);
    latent.v_up = load.stack(blk + "attn_v_b", p.n_heads, l.v_dim, l.kv_rank);
    return;
  }
  // Older files have both expansions in one matrix, head by head, the keys' as it expands.
  const size_t per_head = l.nope_dim + l.v_dim;
  const Weight kv_up = load.matrix(blk + "attn_kv_b", p.n_heads * per_head, l.kv_rank);
  transpose_k_up(kv_up, p, latent);
  for (size_t head = 0; head < p.n_heads; ++head) latent.v_up.push_back(Loader::rows(kv_up, head * per_head + l.nope_dim, l.v_dim));
}

void load_attention(const Loader& load, const std::string& blk, const ModelParams& params, const LayerParams& p, LayerWeights& layer) {
  const size_t n_q = size_t(p.n_heads) * p.k_dim, n_k = size_t(p.n_kv_heads) * p.k_dim, n_v = size_t(p.n_kv_heads) * p.v_dim;
  // A second norm at the layer's start is attention's; the first is then the feed-forward part's, and both read the same input.
  const bool own_norms = load.has(blk + "attn_norm_2.weight");
  layer.attn_norm = load.norm(blk + (own_norms ? "attn_norm_2" : "attn_norm"), params.n_embd, false);
  layer.ffn_norm = load.norm(blk + (own_norms ? "attn_norm" : "ffn_norm"), params.n_embd, false);
  // The norm before the feed-forward part goes by the name of one after attention in some files, which have no other there.
  const bool ffn_norm_elsewhere = layer.attn_norm && !layer.ffn_norm && load.has(blk + "post_attention_norm.weight");
  if (ffn_norm_elsewhere) layer.ffn_norm = load.norm(blk + "post_attention_norm", params.n_embd, false);
  layer.parallel = params.parallel_residual || own_norms || (layer.attn_norm && !layer.ffn_norm);
  if (p.latent) {
    load_latent(load, blk, params, p, layer.latent);
    layer.o = load.matrix(blk + "attn_output", params.n_embd, size_t(p.n_heads) * p.latent.v_dim);
    return;
  }
  if (load.has(blk + "attn_qkv.weight")) {
    const Weight fused = load.matrix(blk + "attn_qkv", n_q + n_k + n_v, params.n_embd);
    layer.q = Loader::rows(fused, 0, n_q);
    layer.k = Loader::rows(fused, n_q, n_k);
    layer.v = Loader::rows(fused, n_q + n_k, n_v);
  } else {
    layer.q = load.matrix(blk + "attn_q", n_q, params.n_embd);
    layer.k = load.matrix(blk + "attn_k", n_k, params.n_embd);
    layer.v = load.matrix(blk + "attn_v", n_v, params.n_embd);
  }
  layer.o = load.matrix(blk + "attn_output", params.n_embd, size_t(p.n_heads) * p.v_dim);
  const auto head_norm = [&](const std::string& stem, size_t n_heads) {
    const bool per_head = load.dim(blk + stem + ".weight", 0) == p.k_dim;
    if (per_head && load.dim(blk + stem + ".weight", 1) > 1) return load.norm_of_heads(blk + stem, n_heads, p.k_dim);
    return load.norm(blk + stem, per_head ? p.k_dim : n_heads * p.k_dim, false);
  };
  layer.q_norm = head_norm("attn_q_norm", p.n_heads);
  layer.k_norm = head_norm("attn_k_norm", p.n_kv_heads);
  layer.sinks = load.vector(blk + "attn_sinks.weight", p.n_heads, false);
  if (!ffn_norm_elsewhere) layer.attn_post_norm = load.norm(blk + "post_attention_norm", params.n_embd, false);
}

void load_experts(const Loader& load, const std::string& blk, const ModelParams& params, const LayerParams& p, LayerWeights& layer) {
  Experts& e = layer.experts;
  e.router = load.matrix(blk + "ffn_gate_inp", p.n_experts, params.n_embd);
  e.choice_bias = load.vector(blk + "exp_probs_b.bias", p.n_experts, false);
  if (load.has(blk + "ffn_gate_up_exps.weight")) {
    for (const Weight& both : load.expert_matrices(blk + "ffn_gate_up", p.n_experts, 2 * size_t(p.n_ff_expert), params.n_embd, true)) {
      e.gate.push_back(Loader::rows(both, 0, p.n_ff_expert));
      e.up.push_back(Loader::rows(both, p.n_ff_expert, p.n_ff_expert));
    }
  } else {
    e.gate = load.expert_matrices(blk + "ffn_gate", p.n_experts, p.n_ff_expert, params.n_embd, false);
    e.up = load.expert_matrices(blk + "ffn_up", p.n_experts, p.n_ff_expert, params.n_embd, true);
  }
  e.down = load.expert_matrices(blk + "ffn_down", p.n_experts, params.n_embd, p.n_ff_expert, true);
  if (p.n_ff == 0) return;
  layer.gate = load.maybe_matrix(blk + "ffn_gate_shexp", p.n_ff, params.n_embd);
  layer.up = load.matrix(blk + "ffn_up_shexp", p.n_ff, params.n_embd);
  layer.down = load.matrix(blk + "ffn_down_shexp", params.n_embd, p.n_ff);
  e.shared_gate = load.vector(blk + "ffn_gate_inp_shexp.weight", params.n_embd, false);
}

void load_ffn(const Loader& load, const std::string& blk, const ModelParams& params, const LayerParams& p, LayerWeights& layer) {
  layer.ffn_post_norm = load.norm(blk + "post_ffw_norm", params.n_embd, false);
  if (p.n_experts) return load_experts(load, blk, params, p, layer);
  layer.gate = load.maybe_matrix(blk + "ffn_gate", p.n_ff, params.n_embd);
  if (!layer.gate && load.dim(blk + "ffn_up.weight", 1) == 2 * size_t(p.n_ff)) {
    const Weight fused = load.matrix(blk + "ffn_up", 2 * size_t(p.n_ff), params.n_embd);
    layer.gate = Loader::rows(fused, 0, p.n_ff);
    layer.up = Loader::rows(fused, p.n_ff, p.n_ff);
  } else {
    layer.up = load.matrix(blk + "ffn_up", p.n_ff, params.n_embd);
  }
  layer.down = load.matrix(blk + "ffn_down", params.n_embd, p.n_ff);
}

/// Optional parts are seen from their tensors, so one that a single layer lacks would pass for another architecture: the file is damaged.
void check_alike(const std::vector<LayerWeights>& layers) {
  using Has = bool (*)(const LayerWeights&);
  const std::pair<const char*, Has> parts[] = {
      {"attn_norm", [](const LayerWeights& l) { return bool(l.attn_norm); }},
      {"ffn_norm", [](const LayerWeights& l) { return bool(l.ffn_norm); }},
      {"post_attention_norm", [](const LayerWeights& l) { return bool(l.attn_post_norm); }},
      {"post_ffw_norm", [](const LayerWeights& l) { return bool(l.ffn_post_norm); }},
      {"attn_q_norm", [](const LayerWeights& l) { return bool(l.q_norm); }},
      {"attn_k_norm", [](const LayerWeights& l) { return bool(l.k_norm); }},
      {"attn_sinks", [](const LayerWeights& l) { return !l.sinks.empty(); }},
      {"attn_norm.bias", [](const LayerWeights& l) { return !l.attn_norm.bias.empty(); }},
      {"ffn_norm.bias", [](const LayerWeights& l) { return !l.ffn_norm.bias.empty(); }},
      {"bias of attn_q", [](const LayerWeights& l) { return !l.q.bias.empty(); }},
      {"bias of attn_k", [](const LayerWeights& l) { return !l.k.bias.empty(); }},
      {"bias of attn_v", [](const LayerWeights& l) { return !l.v.bias.empty(); }},
      {"bias of attn_output", [](const LayerWeights& l) { return !l.o.bias.empty(); }},
  };
  for (size_t i = 1; i < layers.size(); ++i) {
    for (const auto& [name, has] : parts) {
      if (has(layers[i]) == has(layers[0])) continue;
      throw_error(ErrorKind::kModel, "layer {} has {} {}, unlike layer 0; a file whose layers differ so is damaged", i, has(layers[i]) ? "a tensor" : "no tensor", name);
    }
  }
}

/// Left out on purpose, at no loss: tables of angles that are computed here, latent expansions that the file has in another form too, and
/// the blocks behind the layers that guess further tokens.
bool is_idle(const std::string& name, const Loader& load, const ModelParams& params) {
  for (const char* table : {"rot_embd", "inv_freq", "rope_freqs"}) {
    if (name.find(table) != std::string::npos) return true;
  }
  for (size_t i = params.n_layers; i < params.n_layers + params.n_guessing_layers; ++i) {
    if (name.starts_with(fmt::format("blk.{}.", i))) return true;
  }
  const size_t kv_up = name.find("attn_kv_b.");
  return kv_up != std::string::npos && load.has(name.substr(0, kv_up) + "attn_k_b.weight");
}

}  // namespace

ModelWeights load_weights(const gguf::Header& header, const ModelParams& params) {
  const Loader load(header, params.arch->norm);
  ModelWeights w;
  w.token_embd = load.matrix("token_embd", params.n_vocab, params.n_embd);
  if (load.has("position_embd.weight")) w.position_embd = load.matrix("position_embd", params.n_ctx_train, params.n_embd);
  w.token_embd_norm = load.norm("token_embd_norm", params.n_embd, false);
  const bool bare_norms = params.arch->bare_norms;
  const Norm bare{{}, {}, params.n_embd};
  w.output_norm = bare_norms ? bare : load.norm("output_norm", params.n_embd, true);
  w.output = load.has("output.weight") ? load.matrix("output", params.n_vocab, params.n_embd) : w.token_embd;
  const size_t n_pairs = params.ropes[0].n_dims / 2;
  w.rope_factors = load.vector("rope_freqs.weight", n_pairs, false);
  w.rope_factors_long = load.vector("rope_factors_long.weight", n_pairs, false);
  w.rope_factors_short = load.vector("rope_factors_short.weight", n_pairs, false);
  w.layers.resize(params.n_layers);
  for (size_t i = 0; i < params.n_layers; ++i) {
    const std::string blk = fmt::format("blk.{}.", i);
    load_attention(load, blk, params, params.layers[i], w.layers[i]);
    load_ffn(load, blk, params, params.layers[i], w.layers[i]);
    if (bare_norms) w.layers[i].attn_norm = w.layers[i].ffn_norm = bare;
  }
  check_alike(w.layers);
  for (std::string& name : load.unused()) {
    if (!is_idle(name, load, params)) w.unused.push_back(std::move(name));
  }
  return w;
}

std::vector<const Weight*> step_weights(const ModelWeights& weights) {
  std::vector<const Weight*> all;
  for (const LayerWeights& l : weights.layers) {
    for (const Weight* w : {&l.latent.kv_down, &l.latent.q_down, &l.latent.q_up}) {
      if (*w) all.push_back(w);
    }
    for (const std::vector<Weight>* heads : {&l.latent.k_up, &l.latent.v_up}) {
      for (const Weight& w : *heads) all.push_back(&w);
    }
    for (const Weight* w : {&l.q, &l.k, &l.v, &l.o, &l.experts.router, &l.gate, &l.up, &l.down}) {
      if (*w) all.push_back(w);
    }
  }
  all.push_back(&weights.output);
  return all;
}

}  // namespace quern
