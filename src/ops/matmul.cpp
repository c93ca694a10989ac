// Chunks of output rows, claimed by demand. A chunk is small enough that two workers finish together and long enough that a
// worker streams through its part of the file.
#include "ops/matmul.h"

#include <algorithm>

namespace quern::ops {
namespace {

constexpr size_t kChunksPerWorker = 6;
constexpr size_t kChunksPerWorkerOfFew = 3;  // few tokens: a chunk is a stream through memory, and each start of one costs
constexpr size_t kFewTokens = 8;
constexpr size_t kMostChunkRows = 256;

}  // namespace

size_t chunk_rows(size_t n_rows, int n_workers, size_t row_tile, size_t n_tokens) {
  if (n_workers == 1) return std::max(kMostChunkRows / row_tile * row_tile, row_tile);
  const size_t wanted = n_rows / (size_t(n_workers) * (n_tokens <= kFewTokens ? kChunksPerWorkerOfFew : kChunksPerWorker));
  return std::clamp((wanted + row_tile - 1) / row_tile * row_tile, row_tile, std::max(kMostChunkRows, row_tile));
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
  return (n + 63) / 64 * 64;
}

void matmul(Worker& worker, const MatmulContext& context, const ActInput& input, std::span<const MatmulJob> jobs) {
  size_t n_rows = 0;
  for (const MatmulJob& job : jobs) n_rows += job.weight->n_rows;
  const size_t step = chunk_rows(n_rows, worker.count(), context.kernels->row_tile, context.n_tokens);
  size_t n_chunks = 0;
  for (const MatmulJob& job : jobs) n_chunks += (job.weight->n_rows + step - 1) / step;
  worker.for_chunks(n_chunks, [&](size_t chunk) {
    if (context.is_cancelled()) return;
    const MatmulJob* job = jobs.data();
    for (size_t n; chunk >= (n = (job->weight->n_rows + step - 1) / step); ++job) chunk -= n;
    const size_t first = chunk * step;
    multiply_rows(context, input, *job, first, std::min(step, job->weight->n_rows - first));
  });
}

}  // namespace quern::ops
