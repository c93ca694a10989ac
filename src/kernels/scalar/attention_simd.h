// What attention needs beyond the common vocabulary: 8- and 4-bit codes, and the size of its register blocks
// (plain code has no registers to fill).
#pragma once
#include "kernels/kernels.h"
#include "kernels/scalar/simd.h"

namespace quern::kernels::scalar {
namespace {

/// Queries of the largest block, and the vectors that go with a block of so many queries.
inline constexpr int kMostBlockQueries = 2;
inline constexpr int block_vectors(int) { return 1; }

/// 16 codes of E4M3, divided by 256 (the difference of its exponent bias to that of f16).
inline F32x16 load_e4m3(const uint8_t* p) { return lanes([&](int i) { return e4m3_to_f32(p[i]) * 0x1p-8f; }); }
/// Low or high nibbles of 16 bytes.
inline F32x16 load_low_nibbles(const uint8_t* p) { return lanes([&](int i) { return float(p[i] & 15); }); }
inline F32x16 load_high_nibbles(const uint8_t* p) { return lanes([&](int i) { return float(p[i] >> 4); }); }

inline const QueryGroup& query_group(const std::byte* queries, size_t stride, int i) { return *reinterpret_cast<const QueryGroup*>(queries + i * stride); }

/// dots[i] = Σ of the codes of 16 positions (cells of 4 dimensions) times those of query group i, as float.
template <int Q>
inline void dot_i8(const std::byte* cells, size_t n_cells, const std::byte* queries, size_t stride, F32x16* dots) {
  const int8_t* k = reinterpret_cast<const int8_t*>(cells);
  for (int i = 0; i < Q; ++i) {
    const QueryGroup& q = query_group(queries, stride, i);
    dots[i] = lanes([&](int lane) {
      int sum = 0;
      for (size_t d = 0; d < n_cells * 4; ++d) sum += k[d / 4 * 64 + size_t(lane) * 4 + d % 4] * q.codes[d];
      return float(sum);
    });
  }
}
/// The same for cells of 8 dimensions in nibbles that are stored plus 8: low ones first, the high ones n_cells·4 dimensions on.
template <int Q>
inline void dot_i4(const std::byte* cells, size_t n_cells, const std::byte* queries, size_t stride, F32x16* dots) {
  const uint8_t* k = reinterpret_cast<const uint8_t*>(cells);
  for (int i = 0; i < Q; ++i) {
    const QueryGroup& q = query_group(queries, stride, i);
    dots[i] = lanes([&](int lane) {
      int sum = 0;
      for (size_t d = 0; d < n_cells * 4; ++d) {
        const int byte = k[d / 4 * 64 + size_t(lane) * 4 + d % 4];
        sum += ((byte & 15) - 8) * q.codes[d] + ((byte >> 4) - 8) * q.codes[n_cells * 4 + d];
      }
      return float(sum);
    });
  }
}

}  // namespace
}  // namespace quern::kernels::scalar
