// Products of rows that are, or are decoded to, float32 with float activations: 16-lane dots with k contiguous, in register tiles of
// a few rows × a few tokens. Included after simd.h of an instruction set.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels/kernels.h"
#include "quant/decode.h"

namespace quern::kernels::QUERN_ISA {
namespace {

/// Rows of one type, read as vectors of 16 floats. kAsks: each read asks memory for what lies ahead_bytes on.
template <TensorType kType, bool kAsks = false>
struct FloatRows {
  using Elem = std::conditional_t<kType == TensorType::F32, float, uint16_t>;
  const std::byte* base;
  size_t stride_bytes;
  size_t ahead_bytes = 0;

  static F32x16 load_elems(const Elem* p) {
    if constexpr (kType == TensorType::F32) return load(p);
    else if constexpr (kType == TensorType::F16) return load_f16(p);
    else return load_bf16(p);
  }
  F32x16 at(size_t r, size_t i) const {
    const std::byte* p = base + r * stride_bytes + i * sizeof(Elem);
    if constexpr (kAsks) __builtin_prefetch(p + ahead_bytes);
    return load_elems(reinterpret_cast<const Elem*>(p));
  }
  F32x16 tail(size_t r, size_t i, size_t count) const {
    Elem elems[16] = {};
    std::memcpy(elems, base + r * stride_bytes + i * sizeof(Elem), count * sizeof(Elem));
    return load_elems(elems);
  }
};

/// R rows × T tokens: y[t][r] = Σ_k rows[r][k] · x[t][k] in 16 lanes.
template <int R, int T, typename Rows>
void float_tile(Rows rows, const float* x, size_t x_stride, size_t n, float* y, size_t y_stride) {
  F32x16 acc[R][T];
  for (auto& row : acc) for (F32x16& a : row) a = zero();
  const auto step = [&](auto row_at, auto x_at) {
    F32x16 w[R];
    for (int r = 0; r < R; ++r) w[r] = row_at(size_t(r));
    for (int t = 0; t < T; ++t) {
      const F32x16 b = x_at(x + size_t(t) * x_stride);
      for (int r = 0; r < R; ++r) acc[r][t] = fma(w[r], b, acc[r][t]);
    }
  };
  size_t i = 0;
  for (; i + 16 <= n; i += 16) step([&](size_t r) { return rows.at(r, i); }, [&](const float* p) { return load(p + i); });
  if (i < n) step([&](size_t r) { return rows.tail(r, i, n - i); }, [&](const float* p) { return load_tail(p + i, n - i); });
  for (int t = 0; t < T; ++t) {
    for (int r = 0; r < R; ++r) y[size_t(t) * y_stride + size_t(r)] = sum_lanes(acc[r][t]);
  }
}

/// All tokens over R rows.
template <int R, int T, typename Rows>
void float_rows(Rows rows, const FloatMatmul& args, size_t first_row) {
  size_t t = 0;
  for (; t + T <= args.n_tokens; t += T) float_tile<R, T>(rows, args.x + t * args.x_stride, args.x_stride, args.n_cols, args.y + t * args.y_stride + first_row, args.y_stride);
  for (; t < args.n_tokens; ++t) float_tile<R, 1>(rows, args.x + t * args.x_stride, args.x_stride, args.n_cols, args.y + t * args.y_stride + first_row, args.y_stride);
}

/// Strips of R rows, then the last rows one by one: f(first row, integral_constant R or 1).
template <int R, typename F>
void for_strips(size_t n_rows, F f) {
  size_t r = 0;
  for (; r + R <= n_rows; r += R) f(r, std::integral_constant<int, R>());
  for (; r < n_rows; ++r) f(r, std::integral_constant<int, 1>());
}

/// Rows read where they lie. kAsks: the next strip is asked for meanwhile, which pays where a row meets few tokens.
template <TensorType kType, bool kAsks, int R, int T>
void multiply_mapped(const FloatMatmul& args) {
  for_strips<R>(args.n_rows, [&](size_t r, auto count) {
    const size_t ahead = r + 2 * R <= args.n_rows ? R * args.row_bytes : 0;
    float_rows<count, T>(FloatRows<kType, kAsks>{args.weights + r * args.row_bytes, args.row_bytes, ahead}, args, r);
  });
}

/// Decodes one row to float32. F16 and BF16 by this instruction set's conversions, the others by the scalar definition.
inline void decode_to_floats(TensorType type, const std::byte* src, float* dst, size_t n) {
  const size_t whole = type == TensorType::F16 || type == TensorType::BF16 ? n / 16 * 16 : 0;
  if (type == TensorType::F16) for (size_t i = 0; i < whole; i += 16) store(dst + i, load_f16(reinterpret_cast<const uint16_t*>(src) + i));
  if (type == TensorType::BF16) for (size_t i = 0; i < whole; i += 16) store(dst + i, load_bf16(reinterpret_cast<const uint16_t*>(src) + i));
  decode_row(type, src + whole * 2, dst + whole, n - whole);
}

/// kLoadsMapped: loads need no alignment, so that F32 is read where it lies and F16 and BF16 are converted by vectors.
template <int R, int T, bool kLoadsMapped>
void float_matmul(const FloatMatmul& args) {
  if constexpr (kLoadsMapped) {  // decoding first pays only where a row meets many tokens
    const bool is_few = args.n_tokens <= T;
    if (args.type == TensorType::F16 && is_few) return multiply_mapped<TensorType::F16, true, R, T>(args);
    if (args.type == TensorType::BF16 && is_few) return multiply_mapped<TensorType::BF16, true, R, T>(args);
    if (args.type == TensorType::F32 && is_few) return multiply_mapped<TensorType::F32, true, R, T>(args);
    if (args.type == TensorType::F32) return multiply_mapped<TensorType::F32, false, R, T>(args);
  }
  float* decoded = reinterpret_cast<float*>(args.scratch);
  const size_t padded = (args.n_cols + 15) / 16 * 16;
  for_strips<R>(args.n_rows, [&](size_t r, auto count) {
    for (size_t i = 0; i < size_t(count); ++i) {
      const std::byte* row = args.weights + (r + i) * args.row_bytes;
      if constexpr (kLoadsMapped) decode_to_floats(args.type, row, decoded + i * padded, args.n_cols);
      else decode_row(args.type, row, decoded + i * padded, args.n_cols);
    }
    float_rows<count, T>(FloatRows<TensorType::F32>{args.scratch, padded * sizeof(float)}, args, r);
  });
}

}  // namespace
}  // namespace quern::kernels::QUERN_ISA
