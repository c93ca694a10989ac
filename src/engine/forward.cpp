// A layer as a list of named stages. Every worker of the team runs this same text; a stage hands out chunks (rows, tiles, pieces) and
// is over when they are done.
#include "engine/forward.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ops/activation.h"
#include "ops/attention.h"
#include "ops/latent.h"
#include "ops/matmul.h"
#include "ops/moe.h"
#include "parallel/team.h"
#include "quant/decode.h"

namespace quern {
namespace {

using ops::ActInput;
using ops::MatmulJob;
using ops::RowBuffers;

enum class Stage { kAttnInput, kAttnOutput, kFfnInput, kRouter, kFfnInner, kLogits };
constexpr std::array kStageNames = {"the input of attention", "the output of attention", "the input of the feed-forward part", "the choice of experts", "the inside of the feed-forward part", "the logits"};

/// What the workers of one step share.
struct Step {
  const Model& model;
  const kernels::Kernels& kernels;
  ops::Workspace& ws;
  const ForwardOptions& options;
  float* logits;
  size_t n_tokens = 0;
  bool has_sinks = false;
  std::vector<ops::AttentionSegment> segments;
  std::vector<TokenId> tokens;               ///< [n_tokens]
  std::vector<size_t> positions;             ///< [n_tokens]
  std::vector<const RopeTable*> ropes;       ///< [n_tokens] the tables of the row's session
  std::vector<const KvCache*> caches;        ///< [n_tokens]
  std::vector<size_t> logit_rows;            ///< rows that want logits
  ops::FirstFault fault;                     ///< the earliest non-finite row seen, see place_of

  static int place_of(size_t layer, Stage stage) { return int(layer) * 8 + int(stage); }
  void mark_bad(size_t layer, Stage stage) { fault.mark(place_of(layer, stage)); }
};

/// Products with one input.
class Jobs {
 public:
  Jobs() = default;
  Jobs(std::initializer_list<MatmulJob> jobs) : n_(jobs.size()) { std::copy(jobs.begin(), jobs.end(), jobs_.begin()); }
  std::span<const MatmulJob> span() const { return std::span(jobs_).first(n_); }

 private:
  std::array<MatmulJob, 3> jobs_;
  size_t n_ = 0;
};

/// One worker's walk through the step.
class Runner {
 public:
  Runner(Step& step, Worker& worker)
      : s_(step), w_(worker), p_(step.model.params), k_(*step.kernels.vector), rows_(step.ws.rows), clock_(worker.index() == 0 ? step.options.clock : nullptr) {}

  void run() {
    if (clock_) {
      clock_->start();
      w_.time_waits(&clock_->waited_ns);
    }
    embed();
    for (size_t layer = 0; layer < p_.n_layers; ++layer) run_layer(layer);
    output();
    if (clock_) clock_->stop();
  }

 private:
  void run_layer(size_t layer) {
    const LayerWeights& weights = s_.model.weights.layers[layer];
    const LayerParams& lp = p_.layers[layer];
    attn_norm(layer, weights);
    if (weights.latent) {
      latent_queries(layer, weights, lp);
    } else {
      qkv(weights, lp);
      rope(weights, lp);
    }
    attend(layer, weights, lp);
    if (weights.latent) latent_values(layer, weights, lp);
    attn_out(layer, weights, lp);
    ffn_norm(layer, weights);
    if (weights.experts) experts(layer, weights, lp);
    if (weights.up) {
      ffn_up(weights, lp);
      ffn_down(layer, weights, lp);
    }
    if (weights.experts) combine(layer, weights, lp);
  }

  /// x = embedding of the token, scaled (+ its position's row, where positions are learned); the angles of its position.
  void embed() {
    const Weight& table = s_.model.weights.token_embd;
    w_.for_chunks(s_.n_tokens, [&](size_t t) {
      decode_row(table.type, table.data + size_t(s_.tokens[t]) * table.row_bytes, x(t), p_.n_embd);
      if (p_.embedding_scale != 1.0f) k_.scale(x(t), p_.embedding_scale, p_.n_embd);
      if (const Weight& places = s_.model.weights.position_embd) {
        decode_row(places.type, places.data + s_.positions[t] * places.row_bytes, h(t, p_.n_embd), p_.n_embd);
        k_.add(x(t), h(t, p_.n_embd), x(t), p_.n_embd);
      }
      if (s_.model.weights.token_embd_norm) normalise(s_.model.weights.token_embd_norm, x(t), x(t));
      for (size_t r = 0; r < p_.ropes.size(); ++r) {
        const RopeTable& rope_table = s_.ropes[t][r];
        rope_cos_sin(rope_table, s_.positions[t], angles(s_.ws.cos_sin, r, t));
        if (s_.has_sinks && s_.caches[t]->has_sinks()) rope_cos_sin(rope_table, s_.caches[t]->sink_query_position(s_.positions[t]), angles(s_.ws.cos_sin_sink, r, t));
      }
    });
  }

  /// x += out of the layer before; h = norm(x)  [n_tokens, n_embd]
  void attn_norm(size_t layer, const LayerWeights& weights) {
    enter(ClockStage::kNorm);
    each_row(s_.n_tokens, [&](size_t t) {
      if (layer > 0) add_to_residual(s_.model.weights.layers[layer - 1].ffn_post_norm, t);
      normalise(weights.attn_norm, x(t), h(t, p_.n_embd));
      quantize(h(t, p_.n_embd), t, p_.n_embd, layer, Stage::kAttnInput);
    });
  }

  /// q, k, v = W·h + bias  [n_tokens, heads, dim]
  void qkv(const LayerWeights& weights, const LayerParams& lp) {
    enter(ClockStage::kQkv);
    multiply(input(rows_.h.data(), p_.n_embd), s_.n_tokens, qkv_jobs(weights, lp), attn_out_job(weights));
  }

  /// q and k normalised (where the model does) and turned by their position; q also as the sinks see it.
  void rope(const LayerWeights& weights, const LayerParams& lp) {
    enter(ClockStage::kRope);
    const size_t n_q = size_t(lp.n_heads) * lp.k_dim, n_k = size_t(lp.n_kv_heads) * lp.k_dim;
    w_.for_chunks(s_.n_tokens, [&](size_t t) {
      float* q = s_.ws.q.data() + t * n_q;
      float* k = s_.ws.k.data() + t * n_k;
      if (p_.qkv_clamp > 0.0f) clamp_qkv(lp, t);
      if (s_.has_sinks) {
        float* q_sink = s_.ws.q_sink.data() + t * n_q;
        std::copy(q, q + n_q, q_sink);
        place_heads(weights.q_norm, q_sink, lp.n_heads, lp, s_.ws.cos_sin_sink, t);
      }
      place_heads(weights.q_norm, q, lp.n_heads, lp, s_.ws.cos_sin, t);
      place_heads(weights.k_norm, k, lp.n_kv_heads, lp, s_.ws.cos_sin, t);
    });
  }

  /// q, k of latent attention: the rows are their own values  [n_tokens, heads, kv_rank + rope_dim]
  void latent_queries(size_t layer, const LayerWeights& weights, const LayerParams& lp) {
    enter(ClockStage::kQkv);
    const ops::LatentArgs args = latent_args(layer, weights, lp);
    ops::latent_queries(w_, args, input(rows_.h.data(), p_.n_embd), s_.ws.q.data(), s_.has_sinks ? s_.ws.q_sink.data() : nullptr, s_.ws.k.data());
  }

  /// values = each head's expansion of its mean row  [n_tokens, heads, v_dim]
  void latent_values(size_t layer, const LayerWeights& weights, const LayerParams& lp) {
    enter(ClockStage::kAttnOut);
    ops::latent_values(w_, latent_args(layer, weights, lp), s_.ws.attn.data(), s_.ws.latent.values.data());
  }

  /// attn = softmax(q·K)·V over what the cache shows  [n_tokens, heads, v_dim]
  void attend(size_t layer, const LayerWeights& weights, const LayerParams& lp) {
    enter(ClockStage::kAttention);
    ops::AttentionArgs args;
    args.kernels = &s_.kernels;
    args.segments = s_.segments;
    args.layer = layer;
    args.rope = lp.rope;
    args.pairing = lp.rope == kNoRope ? RopePairing::kNone : p_.arch->rope;
    args.n_heads = lp.n_heads;
    args.n_kv_heads = lp.n_kv_heads;
    args.k_dim = lp.k_dim;
    args.v_dim = lp.v_dim;
    args.q = s_.ws.q.data();
    args.q_sink = s_.has_sinks ? s_.ws.q_sink.data() : nullptr;
    args.k = s_.ws.k.data();
    args.v = s_.ws.v.data();
    args.slopes = p_.alibi_slopes.empty() ? nullptr : p_.alibi_slopes.data();
    args.sinks = weights.sinks.empty() ? nullptr : weights.sinks.data();
    args.scale = p_.attention_scale;
    args.softcap = p_.attention_softcap;
    args.out = s_.ws.attn.data();
    args.workspace = s_.ws.attention.data();
    ops::attention(w_, args, s_.options.cancelled);
  }

  /// out = W_o·attn  [n_tokens, n_embd]
  void attn_out(size_t layer, const LayerWeights& weights, const LayerParams& lp) {
    enter(ClockStage::kNorm);
    const size_t n_attn = weights.o.n_cols;
    const float* attn = weights.latent ? s_.ws.latent.values.data() : s_.ws.attn.data();
    each_row(s_.n_tokens, [&](size_t t) { quantize(attn + t * n_attn, t, n_attn, layer, Stage::kAttnOutput); });
    enter(ClockStage::kAttnOut);
    multiply(input(attn, n_attn), s_.n_tokens, attn_out_job(weights), weights.experts ? Jobs() : ffn_up_jobs(weights, lp));
  }

  /// x += out; h = norm(x); the other way round in a parallel layer
  void ffn_norm(size_t layer, const LayerWeights& weights) {
    enter(ClockStage::kNorm);
    each_row(s_.n_tokens, [&](size_t t) {
      if (!weights.parallel) add_to_residual(weights.attn_post_norm, t);
      normalise(weights.parallel && !weights.ffn_norm ? weights.attn_norm : weights.ffn_norm, x(t), h(t, p_.n_embd));
      if (weights.parallel) add_to_residual(weights.attn_post_norm, t);
      quantize(h(t, p_.n_embd), t, p_.n_embd, layer, Stage::kFfnInput);
    });
  }

  /// down = W_down·(act(W_gate·h) · W_up·h) of each token's experts  [n_slots, n_embd]
  void experts(size_t layer, const LayerWeights& weights, const LayerParams& lp) {
    const ops::MoeArgs args = moe_args(layer, weights, lp);
    enter(ClockStage::kRouter);
    ops::route(w_, args);
    enter(ClockStage::kFfnUp);
    ops::experts_up(w_, args);
    enter(ClockStage::kFfnDown);
    ops::experts_down(w_, args);
  }

  /// out = Σ weight·down over the token's experts + what the shared ones left in out  [n_tokens, n_embd]
  void combine(size_t layer, const LayerWeights& weights, const LayerParams& lp) {
    enter(ClockStage::kRouter);
    ops::combine(w_, moe_args(layer, weights, lp), bool(weights.up), rows_.h.data(), s_.ws.out.data());
  }

  /// gate, up = W·h  [n_tokens, n_ff]
  void ffn_up(const LayerWeights& weights, const LayerParams& lp) {
    enter(ClockStage::kFfnUp);
    multiply(input(rows_.h.data(), p_.n_embd), s_.n_tokens, ffn_up_jobs(weights, lp), ffn_down_job(weights));
  }

  /// out = W_down·(act(gate) · up)  [n_tokens, n_embd]
  void ffn_down(size_t layer, const LayerWeights& weights, const LayerParams& lp) {
    enter(ClockStage::kNorm);
    each_row(s_.n_tokens, [&](size_t t) {
      ops::activate(k_, p_.arch->activation, weights.gate ? s_.ws.gate.data() + t * lp.n_ff : nullptr, s_.ws.up.data() + t * lp.n_ff, h(t, lp.n_ff), lp.n_ff);
      quantize(h(t, lp.n_ff), t, lp.n_ff, layer, Stage::kFfnInner);
    });
    enter(ClockStage::kFfnDown);
    multiply(input(rows_.h.data(), lp.n_ff), s_.n_tokens, ffn_down_job(weights), after_layer(layer));
  }

  /// logits = W_output·norm(x + out) of the rows that want them  [n_logits, n_vocab]
  void output() {
    const size_t n = s_.logit_rows.size();
    if (n == 0) return;
    enter(ClockStage::kNorm);
    each_row(n, [&](size_t i) {
      add_to_residual(s_.model.weights.layers.back().ffn_post_norm, s_.logit_rows[i]);
      normalise(s_.model.weights.output_norm, x(s_.logit_rows[i]), h(i, p_.n_embd));
      quantize(h(i, p_.n_embd), i, p_.n_embd, p_.n_layers, Stage::kAttnInput);
    });
    enter(ClockStage::kOutput);
    multiply(input(rows_.h.data(), p_.n_embd), n, output_job(), {});
    w_.for_chunks(n, [&](size_t i) {
      float* row = s_.logits + i * p_.n_vocab;
      if (p_.logit_scale != 1.0f) k_.scale(row, p_.logit_scale, p_.n_vocab);
      if (p_.logit_softcap > 0.0f) k_.softcap(row, p_.logit_softcap, p_.n_vocab);
      if (!k_.all_finite(row, p_.n_vocab)) s_.mark_bad(p_.n_layers, Stage::kLogits);
    });
  }

  // One level down: what the stages are made of.

  void enter(ClockStage stage) {
    if (clock_) clock_->enter(stage);
  }
  float* x(size_t t) { return rows_.x.data() + t * p_.n_embd; }
  float* h(size_t t, size_t n_cols) { return rows_.h.data() + t * n_cols; }
  float* angles(AlignedBuffer<float>& buffer, size_t rope_index, size_t t) {
    const size_t n_pairs = p_.ropes[0].n_dims / 2;
    return buffer.data() + (rope_index * s_.n_tokens + t) * n_pairs * 2;
  }

  template <typename F>
  void each_row(size_t n, F&& f) {
    w_.for_chunks(n, [&](size_t t) {
      if (!cancelled()) f(t);
    });
  }
  bool cancelled() const { return s_.options.cancelled && s_.options.cancelled->load(std::memory_order_relaxed); }

  void normalise(const Norm& norm, const float* from, float* to) {
    if (norm) normalise_span(norm, 0, from, to);
    else std::copy_n(from, p_.n_embd, to);
  }

  /// norm.span values with the norm's weights from `first` on.
  void normalise_span(const Norm& norm, size_t first, const float* from, float* to) {
    const float* weight = norm.weight.empty() ? nullptr : norm.weight.data() + first;
    if (p_.arch->norm == NormKind::kRms) k_.rms_norm(from, weight, p_.norm_eps, to, norm.span);
    else k_.layer_norm(from, weight, norm.bias.empty() ? nullptr : norm.bias.data() + first, p_.norm_eps, to, norm.span);
  }

  /// Head by head, or over all heads at once, as the norm says.
  void normalise_heads(const Norm& norm, float* heads, size_t n_heads, size_t dim) {
    if (!norm) return;
    for (size_t i = 0; i < n_heads * dim; i += norm.span) normalise_span(norm, i % norm.weight.size(), heads + i, heads + i);
  }

  void clamp_qkv(const LayerParams& lp, size_t t) {
    const size_t n_q = size_t(lp.n_heads) * lp.k_dim, n_k = size_t(lp.n_kv_heads) * lp.k_dim, n_v = size_t(lp.n_kv_heads) * lp.v_dim;
    k_.clamp(s_.ws.q.data() + t * n_q, p_.qkv_clamp, n_q);
    k_.clamp(s_.ws.k.data() + t * n_k, p_.qkv_clamp, n_k);
    k_.clamp(s_.ws.v.data() + t * n_v, p_.qkv_clamp, n_v);
  }

  /// Query or key heads normalised (where the model does) and turned, in the architecture's order.
  void place_heads(const Norm& norm, float* heads, size_t n_heads, const LayerParams& lp, AlignedBuffer<float>& table, size_t t) {
    if (!p_.arch->qk_norm_after_rope) normalise_heads(norm, heads, n_heads, lp.k_dim);
    turn_heads(heads, n_heads, lp, table, t);
    if (p_.arch->qk_norm_after_rope) normalise_heads(norm, heads, n_heads, lp.k_dim);
  }

  void turn_heads(float* heads, size_t n_heads, const LayerParams& lp, AlignedBuffer<float>& table, size_t t) {
    if (lp.rope == kNoRope) return;
    const auto turn = p_.arch->rope == RopePairing::kInterleaved ? k_.rope_interleaved : k_.rope_half;
    for (size_t head = 0; head < n_heads; ++head) turn(heads + head * lp.k_dim, angles(table, lp.rope, t), p_.ropes[lp.rope].n_dims / 2);
  }

  void add_to_residual(const Norm& post_norm, size_t t) {
    float* out = s_.ws.out.data() + t * p_.n_embd;
    if (post_norm) normalise(post_norm, out, out);
    if (p_.residual_scale != 1.0f) k_.scale(out, p_.residual_scale, p_.n_embd);
    k_.add(x(t), out, x(t), p_.n_embd);
  }

  /// The row in int8 as row t of the input; its finiteness is checked on the way.
  void quantize(const float* row, size_t t, size_t n_cols, size_t layer, Stage stage) {
    if (!ops::set_input_row(matmul_context(s_.n_tokens), k_, row, n_cols, rows_, t) && !cancelled()) s_.mark_bad(layer, stage);
  }

  ActInput input(const float* rows, size_t n_cols) const {
    return ops::rows_as_input(rows_, rows, n_cols);
  }

  ops::MatmulContext matmul_context(size_t n_tokens) const {
    return {s_.kernels.matmul, s_.options.float_activations, n_tokens, s_.ws.scratch[size_t(w_.index())].data(), s_.options.cancelled};
  }
  void multiply(const ActInput& in, size_t n_tokens, const Jobs& jobs, const Jobs& next) { ops::matmul(w_, matmul_context(n_tokens), in, jobs.span(), next.span()); }

  Jobs qkv_jobs(const LayerWeights& weights, const LayerParams& lp) {
    return {{&weights.q, s_.ws.q.data(), size_t(lp.n_heads) * lp.k_dim},
            {&weights.k, s_.ws.k.data(), size_t(lp.n_kv_heads) * lp.k_dim},
            {&weights.v, s_.ws.v.data(), size_t(lp.n_kv_heads) * lp.v_dim}};
  }
  Jobs attn_out_job(const LayerWeights& weights) { return {{&weights.o, s_.ws.out.data(), p_.n_embd}}; }
  Jobs ffn_up_jobs(const LayerWeights& weights, const LayerParams& lp) {
    const MatmulJob up = {&weights.up, s_.ws.up.data(), lp.n_ff};
    if (!weights.gate) return {up};
    return {{&weights.gate, s_.ws.gate.data(), lp.n_ff}, up};
  }
  Jobs ffn_down_job(const LayerWeights& weights) { return {{&weights.down, s_.ws.out.data(), p_.n_embd}}; }
  Jobs output_job() { return {{&s_.model.weights.output, s_.logits, p_.n_vocab}}; }
  /// What comes after a layer.
  Jobs after_layer(size_t layer) {
    if (layer + 1 == p_.n_layers) return output_job();
    const LayerWeights& next = s_.model.weights.layers[layer + 1];
    return next.latent ? Jobs() : qkv_jobs(next, p_.layers[layer + 1]);
  }

  ops::LatentArgs latent_args(size_t layer, const LayerWeights& weights, const LayerParams& lp) {
    ops::LatentArgs args;
    args.weights = &weights.latent;
    args.layer = &lp;
    args.norm_eps = p_.norm_eps;
    args.vector = &k_;
    args.matmul = matmul_context(s_.n_tokens);
    args.rope = p_.arch->rope == RopePairing::kInterleaved ? k_.rope_interleaved : k_.rope_half;
    args.cos_sin = angles(s_.ws.cos_sin, lp.rope, 0);
    args.cos_sin_sink = s_.has_sinks ? angles(s_.ws.cos_sin_sink, lp.rope, 0) : nullptr;
    args.buffers = &s_.ws.latent;
    args.fault = &s_.fault;
    args.queries_place = Step::place_of(layer, Stage::kAttnInput);
    args.values_place = Step::place_of(layer, Stage::kAttnOutput);
    return args;
  }

  ops::MoeArgs moe_args(size_t layer, const LayerWeights& weights, const LayerParams& lp) const {
    ops::MoeArgs args;
    args.experts = &weights.experts;
    args.layer = &lp;
    args.rule = &p_.router;
    args.activation = p_.arch->activation;
    args.vector = &k_;
    args.matmul = matmul_context(s_.n_tokens);
    args.input = input(rows_.h.data(), p_.n_embd);
    args.buffers = &s_.ws.experts;
    args.fault = &s_.fault;
    args.router_place = Step::place_of(layer, Stage::kRouter);
    args.inner_place = Step::place_of(layer, Stage::kFfnInner);
    return args;
  }

  Step& s_;
  Worker& w_;
  const ModelParams& p_;
  const kernels::VectorKernels& k_;
  RowBuffers& rows_;
  StageClock* clock_;
};

/// Of a layer, the most that any token of the step sees.
size_t most_pieces(std::span<const Segment> segments, size_t layer) {
  size_t most = 0;
  for (const Segment& s : segments) most = std::max(most, ops::most_pieces_seen(s.cache->layout().layer(layer), s.first_pos + s.tokens.size()));
  return most;
}

void lay_out(Step& step, std::span<const Segment> segments) {
  for (const Segment& segment : segments) {
    step.segments.push_back({segment.cache, segment.first_pos, step.n_tokens, segment.tokens.size(), segment.ropes.data()});
    step.has_sinks |= segment.cache->has_sinks();
    for (size_t i = 0; i < segment.tokens.size(); ++i) {
      if (i + segment.n_logits >= segment.tokens.size()) step.logit_rows.push_back(step.n_tokens + i);
      step.tokens.push_back(segment.tokens[i]);
      step.positions.push_back(segment.first_pos + i);
      step.ropes.push_back(segment.ropes.data());
      step.caches.push_back(segment.cache);
    }
    step.n_tokens += segment.tokens.size();
  }
}

void prepare_workspace(ops::Workspace& ws, const ModelParams& params, size_t n_tokens, std::span<const Segment> segments, int n_threads) {
  ws.prepare(params, n_tokens, n_threads);
  size_t attention_bytes = 0;
  for (size_t i = 0; i < params.n_layers; ++i) {
    const LayerParams& l = params.layers[i];
    attention_bytes = std::max(attention_bytes, ops::attention_workspace_bytes(n_tokens, l.n_heads, l.n_kv_heads, l.k_dim, l.v_dim, most_pieces(segments, i), n_threads));
  }
  ws.attention.resize(attention_bytes);
}

}  // namespace

ForwardResult forward(const Model& model, const kernels::Kernels& kernels, ops::Workspace& workspace, std::span<const Segment> segments,
                      const ForwardOptions& options, float* logits) {
  Step step{model, kernels, workspace, options, logits, 0, false, {}, {}, {}, {}, {}, {}, {}};
  lay_out(step, segments);
  prepare_workspace(workspace, model.params, step.n_tokens, segments, options.n_threads);
  run_team(options.n_threads, [&](Worker& worker) { Runner(step, worker).run(); });
  if (options.cancelled && options.cancelled->load()) return {ForwardStatus::kCancelled, {}};
  const int bad = step.fault.place.load();
  if (bad < 0) return {};
  const size_t layer = size_t(bad / 8);
  const char* stage = kStageNames[size_t(bad % 8)];
  return {ForwardStatus::kNonFinite, layer < model.params.n_layers ? fmt::format("{} of layer {}", stage, layer) : fmt::format("{} after the last layer", bad % 8 == int(Stage::kLogits) ? "the logits" : "the hidden state")};
}

}  // namespace quern
