// Products of a step's rows with weights, spread over the team by output rows: threads only ever divide independent outputs.
#pragma once
#include <atomic>
#include <cstddef>
#include <span>

#include "kernels/kernels.h"
#include "model/weights.h"
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
};

/// Whether a weight is multiplied with int8 activations.
bool uses_quantized_activations(const Weight& weight, bool float_activations);
/// Scratch of one worker for products of up to n_tokens rows of up to n_cols.
size_t matmul_scratch_bytes(size_t n_tokens, size_t n_cols);

/// Rows of a chunk where n_rows in all are shared by the team: a multiple of the kernels' row tile.
size_t chunk_rows(size_t n_rows, int n_workers, size_t row_tile, size_t n_tokens);
/// Rows [first, first + n_rows) of a product, by this worker alone.
void multiply_rows(const MatmulContext& context, const ActInput& input, const MatmulJob& job, size_t first, size_t n_rows);

/// Every worker of the team calls it with the same jobs; returns when all are done. A cancelled call leaves y unspecified.
void matmul(Worker& worker, const MatmulContext& context, const ActInput& input, std::span<const MatmulJob> jobs);

}  // namespace quern::ops
