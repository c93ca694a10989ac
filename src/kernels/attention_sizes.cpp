// Buffer sizes of the attention kernels, the same for every instruction set.
#include <algorithm>

#include "base/rounding.h"
#include "kernels/kernels.h"

namespace quern::kernels {
size_t query_float_offset(KvType k_type, size_t dim) {
  if (!kv_type_has_integer_scores(k_type)) return round_up(dim * sizeof(float), 64);
  return round_up(kv_scale_groups(k_type, dim) * sizeof(QueryGroup), 64);
}
size_t query_terms_offset(KvType k_type, size_t dim) { return query_float_offset(k_type, dim) + round_up(dim * sizeof(float), 64); }
size_t query_term_floats(size_t dim) { return round_up(dim / 2, 16); }

size_t query_bytes(KvType k_type, size_t dim) {
  if (!kv_type_is_framed(k_type)) return query_float_offset(k_type, dim);
  return query_terms_offset(k_type, dim) + (16 + 2 * query_term_floats(dim)) * sizeof(float);
}

size_t attend_scratch_bytes(size_t n_queries, size_t k_dim, size_t v_dim) {
  const size_t scores = n_queries * kPiecePositions * sizeof(float);
  const size_t k_tiles = kKeyTilesAtOnce * kKeyTilePositions * k_dim * sizeof(float);
  const size_t v_rows = kValueRowsAtOnce * round_up(v_dim, 16) * sizeof(float);
  const size_t scales = kPiecePositions * (k_dim + v_dim + 2 * kKvGroup) / kKvGroup * sizeof(float);
  const size_t terms = (n_queries + 1) * 2 * query_term_floats(k_dim) * sizeof(float);
  return round_up(scores + std::max({k_tiles, v_rows, terms}) + round_up(scales, 64), 64);
}

}  // namespace quern::kernels
