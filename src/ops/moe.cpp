// The choice is a few passes over one token's numbers; the rest is bookkeeping around the same products as everywhere.
#include "ops/moe.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/rounding.h"
#include "ops/activation.h"

namespace quern::ops {
namespace {

constexpr float kSmallestWeightSum = 6.103515625e-5f;  // 2^-14: sums below would blow the weights up

void softmax(const kernels::VectorKernels& k, float* x, size_t n) {
  const float sum = k.exp_sum(x, k.max(x, n), x, n);
  for (size_t i = 0; i < n; ++i) x[i] /= sum;
}

/// Leaves −∞ in the scores of every group but the best. A group is as good as its best expert (DeepSeek-V2, arXiv 2405.04434), under
/// sigmoid gating as its two best together (DeepSeek-V3, arXiv 2412.19437).
void close_groups(const RouterRule& rule, size_t n_experts, float* scores) {
  const size_t size = n_experts / rule.n_groups;
  const auto quality = [&](size_t group) {
    float best = -__builtin_inff(), second = best;
    for (const float* s = scores + group * size; s < scores + (group + 1) * size; ++s) {
      if (*s > best) second = std::exchange(best, *s);
      else if (*s > second) second = *s;
    }
    return rule.gating == ExpertGating::kSigmoid && size > 1 ? best + second : best;
  };
  // A group stays open if fewer than n_groups_used are better, or as good and before it. Closing waits until all are judged.
  std::array<bool, kMostExpertGroups> open;
  for (size_t g = 0; g < rule.n_groups; ++g) {
    const float own = quality(g);
    size_t n_before = 0;
    for (size_t other = 0; other < rule.n_groups; ++other) {
      const float theirs = quality(other);
      n_before += theirs > own || (theirs == own && other < g);
    }
    open[g] = n_before < rule.n_groups_used;
  }
  for (size_t i = 0; i < n_experts; ++i) {
    if (!open[i / size]) scores[i] = -__builtin_inff();
  }
}

/// Slots in the order of experts, tokens ascending in each: a counting sort.
void group_tokens(const MoeArgs& args) {
  ExpertBuffers& b = *args.buffers;
  const size_t n_experts = args.layer->n_experts, n_used = args.layer->n_experts_used, n_slots = args.matmul.n_tokens * n_used;
  std::fill_n(b.first.data(), n_experts + 1, 0u);
  for (size_t i = 0; i < n_slots; ++i) ++b.first[b.ids[i] + 1];
  b.active[0] = 0;
  for (size_t e = 0; e < n_experts; ++e) {
    if (b.first[e + 1]) b.active[++b.active[0]] = uint32_t(e);
    b.first[e + 1] += b.first[e];
  }
  // first[e] moves to the end of e while it is filled, which is the beginning of e + 1.
  for (size_t i = 0; i < n_slots; ++i) {
    b.slot[i] = b.first[b.ids[i]]++;
    b.token[b.slot[i]] = uint32_t(i / n_used);
  }
  std::copy_backward(b.first.data(), b.first.data() + n_experts, b.first.data() + n_experts + 1);
  b.first[0] = 0;
}

/// One product that every active expert does for its slots.
struct ExpertJob {
  const std::vector<Weight>* weights;
  float* y;   ///< [n_slots, n_rows]
};

/// `input` gives the rows from a slot on. The number of chunks must not depend on the choice, which a worker that comes late may find
/// replaced by the next layer's: chunks past the last active expert do nothing.
template <typename InputFrom>
void multiply_experts(Worker& worker, const MoeArgs& args, InputFrom&& input, std::span<const ExpertJob> jobs) {
  const ExpertBuffers& b = *args.buffers;
  const size_t n_rows = jobs[0].weights->front().n_rows;
  const size_t n_slots = args.matmul.n_tokens * args.layer->n_experts_used, most_active = std::min(n_slots, size_t(args.layer->n_experts));
  const size_t step = chunk_rows(n_rows * jobs.size() * most_active, jobs[0].weights->front().row_bytes, worker.count(), args.matmul.kernels->row_tile, n_slots / most_active);
  const size_t per_job = ceil_div(n_rows, step), per_expert = per_job * jobs.size();
  worker.for_chunks(most_active * per_expert, [&](size_t chunk) {
    if (chunk / per_expert >= b.active[0] || args.matmul.is_cancelled()) return;
    const size_t expert = b.active[1 + chunk / per_expert], first_slot = b.first[expert], first = chunk % per_job * step;
    const ExpertJob& job = jobs[chunk % per_expert / per_job];
    MatmulContext context = args.matmul;
    context.n_tokens = b.first[expert + 1] - first_slot;
    multiply_rows(context, input(first_slot), {&(*job.weights)[expert], job.y + first_slot * n_rows, n_rows}, first, std::min(step, n_rows - first));
  });
}

/// Copies a token's row, in the forms that the experts read, to a slot.
void gather(const MoeArgs& args, size_t slot) {
  RowBuffers& in = args.buffers->in;
  const size_t token = args.buffers->token[slot], n_cols = args.input.n_cols, n_groups = kernels::act_groups(n_cols);
  if (uses_quantized_activations(args.experts->up[0], args.matmul.float_activations)) {
    const kernels::ActRows& x = args.input.quantized;
    const size_t n_codes = n_groups * kernels::kActGroup;
    std::memcpy(in.codes.data() + slot * n_codes, x.codes + token * n_codes, n_codes);
    std::memcpy(in.groups.data() + slot * n_groups, x.groups + token * n_groups, n_groups * sizeof(kernels::ActGroup));
  } else {
    std::memcpy(in.h.data() + slot * n_cols, args.input.rows + token * n_cols, n_cols * sizeof(float));
  }
}

/// A step of one token needs no gathering: all its experts read the row where it lies.
bool is_gathered(const MoeArgs& args) { return args.matmul.n_tokens > 1; }

void choose(const MoeArgs& args, size_t token) {
  ExpertBuffers& b = *args.buffers;
  const size_t n_experts = args.layer->n_experts, n_used = args.layer->n_experts_used;
  float* logits = b.logits.data() + token * n_experts;
  if (!args.vector->all_finite(logits, n_experts)) args.fault->mark(args.router_place);
  const std::vector<float>& bias = args.experts->choice_bias;
  choose_experts(*args.vector, *args.rule, n_experts, n_used, logits, bias.empty() ? nullptr : bias.data(), b.scores.data() + token * n_experts, b.ids.data() + token * n_used,
                 b.weights.data() + token * n_used);
  float& shared = b.shared_weight[token];
  shared = 1.0f;
  if (args.experts->shared_gate.empty()) return;
  shared = args.vector->dot(args.input.rows + token * args.input.n_cols, args.experts->shared_gate.data(), args.input.n_cols);
  args.vector->sigmoid(&shared, &shared, 1);
}

}  // namespace

void choose_experts(const kernels::VectorKernels& k, const RouterRule& rule, size_t n_experts, size_t n_used, float* logits, const float* choice_bias, float* scores,
                    uint32_t* ids, float* weights) {
  if (rule.gating == ExpertGating::kSoftmax) softmax(k, logits, n_experts);
  if (rule.gating == ExpertGating::kSigmoid) k.sigmoid(logits, logits, n_experts);
  if (choice_bias) k.add(logits, choice_bias, scores, n_experts);
  else std::copy_n(logits, n_experts, scores);
  if (rule.n_groups_used < rule.n_groups) close_groups(rule, n_experts, scores);
  for (size_t i = 0; i < n_used; ++i) {
    ids[i] = uint32_t(k.argmax(scores, n_experts));
    weights[i] = logits[ids[i]];
    scores[ids[i]] = -__builtin_inff();
  }
  if (rule.gating == ExpertGating::kSoftmaxChosen) softmax(k, weights, n_used);
  if (rule.normalise) {
    float sum = 0.0f;
    for (size_t i = 0; i < n_used; ++i) sum += weights[i];
    for (size_t i = 0; i < n_used; ++i) weights[i] /= std::max(sum, kSmallestWeightSum);
  }
  if (rule.scale != 1.0f) k.scale(weights, rule.scale, n_used);
}

void route(Worker& worker, const MoeArgs& args) {
  const MatmulJob jobs[] = {{&args.experts->router, args.buffers->logits.data(), args.layer->n_experts}};
  matmul(worker, args.matmul, args.input, jobs);
  worker.for_chunks(args.matmul.n_tokens, [&](size_t token) { choose(args, token); });
  worker.for_chunks(1, [&](size_t) { group_tokens(args); });
  if (is_gathered(args)) worker.for_chunks(args.matmul.n_tokens * args.layer->n_experts_used, [&](size_t slot) { gather(args, slot); });
}

void experts_up(Worker& worker, const MoeArgs& args) {
  const ExpertBuffers& b = *args.buffers;
  const ExpertJob both[] = {{&args.experts->gate, args.buffers->gate.data()}, {&args.experts->up, args.buffers->up.data()}};
  const auto input = [&](size_t slot) { return is_gathered(args) ? rows_as_input(b.in, b.in.h.data(), args.input.n_cols, slot) : args.input; };
  multiply_experts(worker, args, input, std::span(both).subspan(args.experts->gate.empty() ? 1 : 0));
}

void experts_down(Worker& worker, const MoeArgs& args) {
  ExpertBuffers& b = *args.buffers;
  const size_t n_ff = args.layer->n_ff_expert;
  worker.for_chunks(args.matmul.n_tokens * args.layer->n_experts_used, [&](size_t slot) {
    if (args.matmul.is_cancelled()) return;
    float* row = b.inner.h.data() + slot * n_ff;
    activate(*args.vector, args.activation, args.experts->gate.empty() ? nullptr : b.gate.data() + slot * n_ff, b.up.data() + slot * n_ff, row, n_ff);
    if (!set_input_row(args.matmul, *args.vector, row, n_ff, b.inner, slot)) args.fault->mark(args.inner_place);
  });
  const ExpertJob jobs[] = {{&args.experts->down, b.down.data()}};
  multiply_experts(worker, args, [&](size_t slot) { return rows_as_input(b.inner, b.inner.h.data(), n_ff, slot); }, jobs);
}

void combine(Worker& worker, const MoeArgs& args, bool has_shared, float* sums, float* out) {
  const ExpertBuffers& b = *args.buffers;
  const size_t n_used = args.layer->n_experts_used, n = args.input.n_cols;
  worker.for_chunks(args.matmul.n_tokens, [&](size_t token) {
    float* sum = sums + token * n;
    std::fill_n(sum, n, 0.0f);
    for (size_t i = token * n_used; i < (token + 1) * n_used; ++i) args.vector->add_scaled(sum, b.down.data() + b.slot[i] * n, b.weights[i], sum, n);
    float* row = out + token * n;
    if (has_shared) args.vector->add_scaled(sum, row, b.shared_weight[token], row, n);
    else std::copy_n(sum, n, row);
  });
}

}  // namespace quern::ops
