// The contract of the kernels: arithmetic on rows. No threads, no allocation, no exceptions; scratch memory comes from the
// caller. All matrices are row-major, the last axis contiguous; buffers of quern's own are 64-byte aligned, mapped weights need
// not be. Every function gives the same bits on every instruction set: the order of operations below is the definition.
//
// Vocabulary of orders: "16 lanes" = element i goes to lane i mod 16, fma in ascending order from +0, then the fixed tree
// t8[i] = l[i] + l[i+8], t4[i] = t8[i] + t8[i+4], t2[i] = t4[i] + t4[i+2], sum = t2[0] + t2[1].
#pragma once
#include <cstddef>
#include <cstdint>

#include "quant/format.h"
#include "quant/kv_format.h"
#include "quant/kv_frame.h"

namespace quern::kernels {

enum class Isa { kScalar, kAvx2, kAvx512 };

inline constexpr size_t kActGroup = 32;  ///< activations that share a scale
constexpr size_t act_groups(size_t n_cols) { return (n_cols + kActGroup - 1) / kActGroup; }

/// What a group of 32 activations holds besides its codes.
struct ActGroup {
  float scale;         ///< a: an activation is a · code
  float scaled_sum;    ///< a · float(sum of the codes): what multiplies a minimum that the whole group shares
  int16_t sums[2];     ///< of the codes of each half of 16
};

/// Rows of activations quantized to int8 in groups of 32 (tails padded with zeros).
struct ActRows {
  const int8_t* codes = nullptr;     ///< [n_tokens, n_groups * 32]
  const ActGroup* groups = nullptr;  ///< [n_tokens, n_groups]
  size_t n_groups = 0;
};

/// y[t][r] = Σ_k W[r][k] · x[t][k] for n_rows rows of a block-quantized matrix, in the integer form of quant/group_form.h:
/// one accumulator per output from +0, groups ascending. Σ runs over a group's 32 codes, x are the activations' codes:
///   formats whose halves share a sub-scale:  acc = fma(float(Σ (code − offset)·x), (D·s)·a, acc), then acc = fma(M·m, scaled_sum, acc);
///   the others:  I = Σ_h s_h · Σ (code − offset)·x and J = Σ_h m_h · sums_h, acc = fma(float(I), D·a, acc), then acc = fma(float(J), M·a, acc).
/// D·s, M·m and every integer are exact as float32.
struct QuantMatmul {
  TensorType type;
  const std::byte* weights;  ///< first row
  size_t row_bytes;          ///< distance between rows
  size_t n_rows;             ///< any number
  ActRows x;
  size_t n_tokens;           ///< ≥ 1, any number
  float* y;                  ///< [n_tokens][y_stride]: y[t * y_stride + r]
  size_t y_stride;
  std::byte* scratch;        ///< 64-byte aligned, quant_matmul_scratch_bytes(n_tokens)
};

/// The same product for float activations: the row is decoded to float32 (exact for F32, F16, BF16), then a 16-lane dot over k.
struct FloatMatmul {
  TensorType type;
  const std::byte* weights;
  size_t row_bytes;
  size_t n_rows;
  size_t n_cols;
  const float* x;            ///< [n_tokens][x_stride]
  size_t x_stride;
  size_t n_tokens;
  float* y;                  ///< y[t * y_stride + r]
  size_t y_stride;
  std::byte* scratch;        ///< 64-byte aligned, float_matmul_scratch_bytes(n_cols)
};

struct MatmulKernels {
  /// Quantizes n floats: per group amax by unsigned maximum of the bits without sign; below 2^-100: scale 0 and zeros; else
  /// a = amax/127, inv = 127/amax (true divisions), q = round-to-nearest-even(x*inv) clamped to ±127. Returns false if a value
  /// is not finite (outputs are then unspecified). Writes ceil(n/32) groups, the tail padded with zeros.
  bool (*quantize_row)(const float* x, size_t n, int8_t* codes, ActGroup* groups);
  void (*quant_matmul)(const QuantMatmul& args);
  void (*float_matmul)(const FloatMatmul& args);
  /// Rows that a call should be a multiple of to use its tiles fully.
  size_t row_tile;
};
/// Scratch for one call, any instruction set.
size_t quant_matmul_scratch_bytes(size_t n_tokens);
size_t float_matmul_scratch_bytes(size_t n_cols);

struct VectorKernels {
  float (*dot)(const float* a, const float* b, size_t n);                ///< 16 lanes
  /// out = (x · s) · weight with s = 1/sqrt(Σx²/n + eps), Σ in 16 lanes; weight may be null. out may be x.
  void (*rms_norm)(const float* x, const float* weight, float eps, float* out, size_t n);
  /// out = ((x − mean) · s) · weight + bias (fma); weight and bias may be null.
  void (*layer_norm)(const float* x, const float* weight, const float* bias, float eps, float* out, size_t n);
  /// Rotates pairs (x[2i], x[2i+1]) by angle i: cos_sin = [n_pairs][2]. Each output is one multiplication and one fma.
  void (*rope_interleaved)(float* x, const float* cos_sin, size_t n_pairs);
  /// Rotates pairs (x[i], x[i + n_pairs]) by angle i.
  void (*rope_half)(float* x, const float* cos_sin, size_t n_pairs);
  // An activation times up; up may be null (1).
  void (*silu_mul)(const float* gate, const float* up, float* out, size_t n);   ///< gate/(1+exp(−gate))
  void (*gelu_mul)(const float* gate, const float* up, float* out, size_t n);   ///< tanh form of GELU
  void (*relu_squared_mul)(const float* gate, const float* up, float* out, size_t n);   ///< max(gate, 0)²
  /// gpt-oss: g = min(gate, limit), u = clamp(up, ±limit); out = (u + 1) · g/(1+exp(−1.702·g)).
  void (*clamped_swiglu_mul)(const float* gate, const float* up, float limit, float* out, size_t n);
  void (*sigmoid)(const float* x, float* out, size_t n);                        ///< 1/(1+exp(−x)). out may be x
  void (*add)(const float* a, const float* b, float* out, size_t n);
  void (*add_scaled)(const float* a, const float* x, float factor, float* out, size_t n);  ///< out = fma(x, factor, a). out may be a or x
  void (*scale)(float* x, float factor, size_t n);
  void (*clamp)(float* x, float limit, size_t n);                               ///< into [−limit, limit]; NaN stays
  void (*softcap)(float* x, float cap, size_t n);                               ///< cap · tanh(x / cap)
  /// out[i] = exp(x[i] − max) and the 16-lane sum of out. out may be x.
  float (*exp_sum)(const float* x, float max, float* out, size_t n);
  float (*max)(const float* x, size_t n);
  size_t (*argmax)(const float* x, size_t n);                                   ///< ties to the lowest index; NaN never wins
  bool (*all_finite)(const float* x, size_t n);
  /// In place, orthonormal. n that is not a power of two is rotated in power-of-two parts, largest first. Stages h = 1, 2, 4 …,
  /// one final multiplication by 1/sqrt(part).
  void (*hadamard)(float* x, size_t n);
};

inline constexpr size_t kKeyTilePositions = 16;  ///< lanes of a K tile
inline constexpr size_t kKeyTilesAtOnce = 4;     ///< K tiles converted together when many queries share them
inline constexpr size_t kValueRowsAtOnce = 32;   ///< V rows converted together when many queries share them

/// 32 dimensions of a query that was prepared for integer keys. A short last group is padded with zeros.
struct QueryGroup {
  int8_t codes[kKvGroup];
  float scale;
  int32_t sum;  ///< of the codes
  int32_t padding[6];
};
static_assert(sizeof(QueryGroup) == 64);

/// What keys that are stored relative to a frame (quant/kv_frame.h) need besides their codes.
struct AttendFrame {
  const uint16_t* head_keys;   ///< piece 0: the first kHeadPositions keys [k_dim][kHeadPositions] in f16; null for other pieces
  size_t n_pairs;              ///< pairs of dimensions with a mean
  const uint16_t* pairs;       ///< [n_pairs]
  const float* offsets;        ///< cosine and sine of every pair at 0…255, see KeyTurn
  const float* angles;         ///< [all pairs][2] of the piece's first position
};

/// One piece of 256 positions, one KV head, some query rows (the tokens × query heads that share the head).
struct AttendPiece {
  KvType k_type, v_type;
  size_t k_dim, v_dim;
  const std::byte* k_block;      ///< see quant/kv_format.h
  const std::byte* v_block;      ///< null: the values are the first v_dim dimensions of the keys, v_type is k_type
  const AttendFrame* frame;      ///< of framed keys, or null: they stand for themselves
  const std::byte* queries;      ///< prepared by prepare_query, one every query_bytes(k_type, k_dim)
  size_t n_queries;
  const uint16_t* begin;         ///< [n_queries] visible positions of the piece are [begin, end), begin < end
  const uint16_t* end;
  float scale;                   ///< score = dot · scale
  float softcap;                 ///< > 0: score = cap · tanh(score / cap)
  float* m;                      ///< [n_queries] out: maximum score
  float* l;                      ///< [n_queries] out: Σ exp(s − m) in 16 lanes, lane = position mod 16, fixed tree
  float* o;                      ///< [n_queries][o_stride] out: Σ exp(s − m)·v, one ascending fma chain per element
  size_t o_stride;               ///< v_dim rounded up to a multiple of 16 or more; what stands past v_dim is unspecified
  std::byte* scratch;            ///< 64-byte aligned, attend_scratch_bytes(n_queries, k_dim, v_dim)
  // ALiBi (arXiv 2108.12409), or null: score = fma(slope, distance + offset in the piece, score), after scale and cap.
  const float* slopes = nullptr;     ///< [n_queries]
  const float* distances = nullptr;  ///< [n_queries] the piece's first position minus the query's
};

struct AttentionKernels {
  /// Stores one row at a position (0…255) of a block. The row is rotated already where kv_type_is_rotated.
  void (*store_k)(KvType type, const float* row, size_t dim, std::byte* block, size_t position);
  void (*store_v)(KvType type, const float* row, size_t dim, std::byte* block, size_t position);
  /// Reads a row back as float32, as attention sees it (still rotated): for tests, reports and eviction.
  void (*load_k)(KvType type, const std::byte* block, size_t dim, size_t position, float* row);
  void (*load_v)(KvType type, const std::byte* block, size_t dim, size_t position, float* row);
  /// Float keys: the query as it is. Integer keys: int8 codes in groups of 32 with scales and sums, as activations.
  void (*prepare_query)(KvType k_type, const float* q, size_t dim, std::byte* prepared);
  /// Scores: float keys one ascending fma chain over the dimensions from +0; integer keys Σ over groups ascending of
  /// fma(float(I), D*a, acc) as in a matmul; fp8 as float with the row scale last. With a frame, its terms follow: + constant, then
  /// fma(a', cos, acc), fma(b', sin, acc) pair by pair, a' = fma(a, c, b·s), b' = fma(−a, s, b·c) turned to the piece; the first keys of a
  /// sequence are scored as f16 with the float query.
  void (*attend)(const AttendPiece& args);
  /// Merges a piece (mp, lp, op) into the running (m, l, o), which starts as (−inf, 0, 0): m' = max(m, mp); x = exp(m − m');
  /// y = exp(mp − m'); l = fma(lp, y, l·x); o = fma(op, y, o·x).
  void (*merge)(float* m, float* l, float* o, float mp, float lp, const float* op, size_t v_dim);
};
/// Of a prepared query, a multiple of 64: what prepare_query writes, and for framed keys behind it (filled by the caller) the float
/// query itself at query_float_offset, and at query_terms_offset the terms of kv_frame_query_terms: the constant, a 16 floats on, b
/// query_term_floats(dim) after a.
size_t query_bytes(KvType k_type, size_t dim);
size_t query_float_offset(KvType k_type, size_t dim);
size_t query_terms_offset(KvType k_type, size_t dim);
size_t query_term_floats(size_t dim);
size_t attend_scratch_bytes(size_t n_queries, size_t k_dim, size_t v_dim);

struct Kernels {
  Isa isa;
  const char* name;  ///< scalar, avx2, avx512
  const MatmulKernels* matmul;
  const VectorKernels* vector;
  const AttentionKernels* attention;
};

/// The table of an instruction set, or nullptr if this CPU (or its OS) lacks it.
const Kernels* kernels_for(Isa isa);
/// The table in use: the best the CPU has, or what QUERN_ISA=scalar|avx2|avx512 asks for.
/// @throws Error(kUsage) when QUERN_ISA names nothing known or what this CPU lacks.
const Kernels& active_kernels();

}  // namespace quern::kernels
