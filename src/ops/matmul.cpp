// Chunks of output rows, claimed by demand. A chunk is small enough that two workers finish together and long enough that a
// worker streams through its part of the file.
#include "ops/matmul.h"

#include <algorithm>

#include "base/rounding.h"

namespace quern::ops {
namespace {

constexpr size_t kChunksPerWorker = 6;
constexpr size_t kChunksPerWorkerOfFew = 3;  // few tokens: a chunk is a stream through memory, and each start of one costs
constexpr size_t kFewTokens = 8;
constexpr size_t kMostChunkRows = 256;
constexpr size_t kMostChunkBytesOfFew = 1 << 20;
constexpr size_t kMostFetchBytes = 256 << 10;  // a part of L2: what is fetched ahead must not push out what is in use

/// The weights that this worker will probably read first of `next`, if it has to wait before.
std::span<const std::byte> wanted_of(const Worker& worker, const MatmulContext& context, std::span<const MatmulJob> next) {
  if (next.empty() || worker.count() == 1 || context.n_tokens > kFewTokens) return {};
  // Who ends the wait goes on first and takes chunk 0; who waited takes one of those after it.
  const RowChunks chunks(next, worker.count(), context.kernels->row_tile, context.n_tokens);
  const size_t i = 1 + size_t(worker.index()) % size_t(worker.count() - 1);
  if (i >= chunks.count()) return {};
  const auto [job, first, n_rows] = chunks[i];
  return {job->weight->data + first * job->weight->row_bytes, std::min(n_rows * job->weight->row_bytes, kMostFetchBytes)};
}

}  // namespace

size_t chunk_rows(size_t n_rows, size_t row_bytes, int n_workers, size_t row_tile, size_t n_tokens) {
  const bool is_few = n_tokens <= kFewTokens;
  const size_t most = is_few ? std::max(kMostChunkRows, kMostChunkBytesOfFew / row_bytes) : kMostChunkRows;
  const size_t wanted = n_workers == 1 ? most : std::min(most, n_rows / (size_t(n_workers) * (is_few ? kChunksPerWorkerOfFew : kChunksPerWorker)));
  return std::max(round_up(wanted, row_tile), row_tile);
}

RowChunks::RowChunks(std::span<const MatmulJob> jobs, int n_workers, size_t row_tile, size_t n_tokens) : jobs_(jobs) {
  size_t n_rows = 0;
  for (const MatmulJob& job : jobs) n_rows += job.weight->n_rows;
  const Weight& last = *jobs.back().weight;
  step_ = last_step_ = chunk_rows(n_rows, last.row_bytes, n_workers, row_tile, n_tokens);
  if (n_workers > 1) last_step_ = std::clamp(kLastChunkBytes / last.row_bytes / row_tile * row_tile, row_tile, step_);
  n_whole_ = last.n_rows / step_ - std::min(last.n_rows / step_, size_t(n_workers - 1));
  for (const MatmulJob& job : jobs.first(jobs.size() - 1)) n_before_last_ += ceil_div(job.weight->n_rows, step_);
  count_ = n_before_last_ + n_whole_ + ceil_div(last.n_rows - n_whole_ * step_, last_step_);
}

RowChunks::Chunk RowChunks::operator[](size_t chunk) const {
  const auto rows_of = [](const MatmulJob& job, size_t first, size_t n) { return Chunk{&job, first, std::min(n, job.weight->n_rows - first)}; };
  if (chunk >= n_before_last_ + n_whole_) return rows_of(jobs_.back(), n_whole_ * step_ + (chunk - n_before_last_ - n_whole_) * last_step_, last_step_);
  const MatmulJob* job = jobs_.data();
  for (size_t n; chunk >= (n = ceil_div(job->weight->n_rows, step_)); ++job) chunk -= n;
  return rows_of(*job, chunk * step_, step_);
}

void multiply_rows(const MatmulContext& context, const ActInput& input, const MatmulJob& job, size_t first, size_t n_rows) {
  const Weight& w = *job.weight;
  float* y = job.y + first;
  const std::byte* rows = w.data + first * w.row_bytes;
  if (uses_quantized_activations(w, context.float_activations)) {
    context.kernels->quant_matmul({w.type, rows, w.row_bytes, n_rows, input.quantized, context.n_tokens, y, job.y_stride, context.scratch});
  } else {
    context.kernels->float_matmul({w.type, rows, w.row_bytes, n_rows, w.n_cols, input.rows, input.n_cols, context.n_tokens, y, job.y_stride, context.scratch});
  }
  if (w.bias.empty()) return;
  for (size_t t = 0; t < context.n_tokens; ++t) {
    for (size_t r = 0; r < n_rows; ++r) y[t * job.y_stride + r] += w.bias[first + r];
  }
}

ActInput rows_as_input(const RowBuffers& buffers, const float* rows, size_t n_cols, size_t first) {
  const size_t n_groups = kernels::act_groups(n_cols);
  return {rows + first * n_cols, n_cols,
          {buffers.codes.data() + first * n_groups * kernels::kActGroup, buffers.groups.data() + first * n_groups, n_groups}};
}

bool set_input_row(const MatmulContext& context, const kernels::VectorKernels& vector, const float* x, size_t n_cols, RowBuffers& buffers, size_t row) {
  if (context.float_activations) return vector.all_finite(x, n_cols);
  const size_t n_groups = kernels::act_groups(n_cols);
  return context.kernels->quantize_row(x, n_cols, buffers.codes.data() + row * n_groups * kernels::kActGroup, buffers.groups.data() + row * n_groups);
}

bool uses_quantized_activations(const Weight& weight, bool float_activations) {
  return !float_activations && format_info(weight.type).is_quantized;
}

size_t matmul_scratch_bytes(size_t n_tokens, size_t n_cols) {
  const size_t n = std::max(kernels::quant_matmul_scratch_bytes(n_tokens), kernels::float_matmul_scratch_bytes(n_cols));
  return round_up(n, 64);
}

void matmul(Worker& worker, const MatmulContext& context, const ActInput& input, std::span<const MatmulJob> jobs, std::span<const MatmulJob> next) {
  worker.fetch_while_waiting(wanted_of(worker, context, next));
  const RowChunks chunks(jobs, worker.count(), context.kernels->row_tile, context.n_tokens);
  worker.for_chunks(chunks.count(), [&](size_t i) {
    if (context.is_cancelled()) return;
    const auto [job, first, n_rows] = chunks[i];
    multiply_rows(context, input, *job, first, n_rows);
  });
}

}  // namespace quern::ops
