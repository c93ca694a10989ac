// Products of a step's rows with weights, spread over the team by output rows: threads only ever divide independent outputs.
#pragma once
#include <atomic>
#include <cstddef>
#include <span>

#include "kernels/kernels.h"
#include "model/weights.h"
#include "ops/workspace.h"
#include "parallel/team.h"

namespace quern::ops {

/// Rows of activations in the two forms a product may ask for.
struct ActInput {
  const float* rows = nullptr;     ///< [n_tokens, n_cols]
  size_t n_cols = 0;
  kernels::ActRows quantized;      ///< the same rows in int8; unused with float activations
};

/// y = W·x + bias for one weight; several jobs share their input.
struct MatmulJob {
  const Weight* weight = nullptr;
  float* y = nullptr;              ///< [n_tokens, y_stride]
  size_t y_stride = 0;
};

struct MatmulContext {
  const kernels::MatmulKernels* kernels = nullptr;
  bool float_activations = false;  ///< --act f32
  size_t n_tokens = 0;
  std::byte* scratch = nullptr;    ///< this worker's, matmul_scratch_bytes(…)
  const std::atomic<bool>* cancelled = nullptr;
  bool is_cancelled() const { return cancelled && cancelled->load(std::memory_order_relaxed); }
};

/// Rows [first, …) of `rows`, whose int8 forms the buffers hold, as the input of a product.
ActInput rows_as_input(const RowBuffers& buffers, const float* rows, size_t n_cols, size_t first = 0);
/// Puts x [n_cols] into the buffers as row `row` in the form that products with quantized weights ask for (with float activations there
/// is none). Returns whether all of it is finite.
bool set_input_row(const MatmulContext& context, const kernels::VectorKernels& vector, const float* x, size_t n_cols, RowBuffers& buffers, size_t row);

/// Whether a weight is multiplied with int8 activations.
bool uses_quantized_activations(const Weight& weight, bool float_activations);
/// Scratch of one worker for products of up to n_tokens rows of up to n_cols.
size_t matmul_scratch_bytes(size_t n_tokens, size_t n_cols);

/// Rows of a chunk where n_rows in all are shared by the team: a multiple of the kernels' row tile.
size_t chunk_rows(size_t n_rows, size_t row_bytes, int n_workers, size_t row_tile, size_t n_tokens);

/// How the rows of products with one input are dealt out: by chunk_rows, and in smaller chunks at the end of the last product, where a
/// chunk's length is what the other workers wait. Every row is in exactly one chunk.
class RowChunks {
 public:
  struct Chunk {
    const MatmulJob* job;
    size_t first, n_rows;
  };
  static constexpr size_t kLastChunkBytes = 96 << 10;  ///< of weights, unless a row tile has more

  /// `jobs` must outlive it.
  RowChunks(std::span<const MatmulJob> jobs, int n_workers, size_t row_tile, size_t n_tokens);
  size_t count() const { return count_; }
  Chunk operator[](size_t chunk) const;

 private:
  std::span<const MatmulJob> jobs_;
  size_t step_, last_step_;
  size_t n_before_last_ = 0;  ///< chunks of the products before the last
  size_t n_whole_;            ///< whole steps of the last
  size_t count_;
};

/// Rows [first, first + n_rows) of a product, by this worker alone.
void multiply_rows(const MatmulContext& context, const ActInput& input, const MatmulJob& job, size_t first, size_t n_rows);

/// Every worker of the team calls it with the same jobs; returns when all are done. A cancelled call leaves y unspecified.
/// `next`: the products after these, if they are known; a worker that waits meanwhile fetches some of their weights.
void matmul(Worker& worker, const MatmulContext& context, const ActInput& input, std::span<const MatmulJob> jobs, std::span<const MatmulJob> next = {});

}  // namespace quern::ops
