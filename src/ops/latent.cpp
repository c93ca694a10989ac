// Two products down, one up, and one matrix a head each way.
#include "ops/latent.h"

#include <algorithm>
#include <cstring>

namespace quern::ops {
namespace {

/// A row as the next product wants it; what is not finite is marked.
void set_row(const LatentArgs& args, RowBuffers& rows, size_t row, size_t n_cols, int place) {
  const bool fine = set_input_row(args.matmul, *args.vector, rows.h.data() + row * n_cols, n_cols, rows, row);
  if (!fine && !args.matmul.is_cancelled()) args.fault->mark(place);
}

/// Each head's own matrix times its rows [n_heads, n_tokens, n_cols] of `heads`: y[t][head · row_stride + r].
void multiply_heads(Worker& worker, const LatentArgs& args, std::span<const Weight> weights, float* y, size_t head_stride) {
  const size_t n_tokens = args.matmul.n_tokens;
  worker.for_chunks(weights.size(), [&](size_t head) {
    if (args.matmul.is_cancelled()) return;
    const Weight& w = weights[head];
    multiply_rows(args.matmul, rows_as_input(args.buffers->heads, args.buffers->heads.h.data(), w.n_cols, head * n_tokens), {&w, y + head * head_stride, weights.size() * head_stride}, 0, w.n_rows);
  });
}

/// Norm of the latent, rotation of the shared key part; norm of the queries' own latent.
void finish_rows(const LatentArgs& args, size_t token, float* k) {
  const LatentParams& p = args.layer->latent;
  float* row = k + token * args.layer->k_dim;
  args.vector->rms_norm(row, args.weights->kv_norm.weight.data(), args.norm_eps, row, p.kv_rank);
  args.rope(row + p.kv_rank, args.cos_sin + token * p.rope_dim, p.rope_dim / 2);
  if (!args.weights->q_down) return;
  float* low = args.buffers->low.h.data() + token * p.q_rank;
  args.vector->rms_norm(low, args.weights->q_norm.weight.data(), args.norm_eps, low, p.q_rank);
  set_row(args, args.buffers->low, token, p.q_rank, args.queries_place);
}

/// The part of a token's queries that is rotated goes to its place, the other to the rows of its head.
void split_queries(const LatentArgs& args, size_t token, float* q, float* q_sink) {
  const LatentParams& p = args.layer->latent;
  const size_t n_heads = args.layer->n_heads, k_dim = args.layer->k_dim, full = p.nope_dim + p.rope_dim;
  for (size_t head = 0; head < n_heads; ++head) {
    const float* from = args.buffers->queries.data() + (token * n_heads + head) * full;
    const size_t row = head * args.matmul.n_tokens + token, at = (token * n_heads + head) * k_dim + p.kv_rank;
    std::copy_n(from, p.nope_dim, args.buffers->heads.h.data() + row * p.nope_dim);
    set_row(args, args.buffers->heads, row, p.nope_dim, args.queries_place);
    std::copy_n(from + p.nope_dim, p.rope_dim, q + at);
    args.rope(q + at, args.cos_sin + token * p.rope_dim, p.rope_dim / 2);
    if (!q_sink) continue;
    std::copy_n(from + p.nope_dim, p.rope_dim, q_sink + at);
    args.rope(q_sink + at, args.cos_sin_sink + token * p.rope_dim, p.rope_dim / 2);
  }
}

}  // namespace

void latent_queries(Worker& worker, const LatentArgs& args, const ActInput& h, float* q, float* q_sink, float* k) {
  const LatentParams& p = args.layer->latent;
  const size_t n_tokens = args.matmul.n_tokens, n_heads = args.layer->n_heads, k_dim = args.layer->k_dim, n_queries = n_heads * (p.nope_dim + p.rope_dim);
  const MatmulJob rows = {&args.weights->kv_down, k, k_dim}, queries = {&args.weights->q_up, args.buffers->queries.data(), n_queries};
  const bool has_low = bool(args.weights->q_down);
  const MatmulJob down[] = {has_low ? MatmulJob{&args.weights->q_down, args.buffers->low.h.data(), p.q_rank} : queries, rows};
  matmul(worker, args.matmul, h, down);
  worker.for_chunks(n_tokens, [&](size_t token) { finish_rows(args, token, k); });
  if (has_low) matmul(worker, args.matmul, rows_as_input(args.buffers->low, args.buffers->low.h.data(), p.q_rank), std::span(&queries, 1));
  worker.for_chunks(n_tokens, [&](size_t token) { split_queries(args, token, q, q_sink); });
  multiply_heads(worker, args, args.weights->k_up, q, k_dim);
  if (!q_sink) return;
  worker.for_chunks(n_tokens * n_heads, [&](size_t row) { std::copy_n(q + row * k_dim, p.kv_rank, q_sink + row * k_dim); });
}

void latent_values(Worker& worker, const LatentArgs& args, const float* attn, float* out) {
  const LatentParams& p = args.layer->latent;
  const size_t n_tokens = args.matmul.n_tokens, n_heads = args.layer->n_heads;
  worker.for_chunks(n_tokens * n_heads, [&](size_t row) {
    std::copy_n(attn + (row % n_tokens * n_heads + row / n_tokens) * p.kv_rank, p.kv_rank, args.buffers->heads.h.data() + row * p.kv_rank);
    set_row(args, args.buffers->heads, row, p.kv_rank, args.values_place);
  });
  multiply_heads(worker, args, args.weights->v_up, out, p.v_dim);
}

}  // namespace quern::ops
