// The element types a KV cache row can be stored in: names, sizes, and what each does to a row. One row of the cache is the K
// (or V) vector of one KV head at one position. The layout of a block of 256 rows is stated here too, because codec, kernels
// and report must agree on it.
//
// A *block* holds 256 positions (one piece) of one KV head: first the codes, then the scales.
//   The codes of one row, in *cells*: f32 f16 bf16 fp8: one cell is one dimension (4, 2, 2, 1 bytes); int8: 4 dimensions
//   (4 bytes); int4: 8 dimensions (4 bytes): in a group of h bytes (16, or less in a short last one) byte i holds dimension i in
//   its low nibble and dimension h + i in its high one.
//   V codes are rows: [256 positions][cells].
//   K codes are tiled by 16 positions and cell-major inside a tile, so that a vector of 16 lanes is 16 positions and a score needs
//   no horizontal sum: [16 tiles][cell][16 positions][cell bytes].
//   Scales, K and V alike: f16, [scale group][256 positions]. fp8 has one group, the row, and its scale is a power of two.
// Groups are 32 dimensions; a head size that is not a multiple of 32 has a short last group. Quantized keys stand in a frame (kv_frame.h).
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace quern {

inline constexpr size_t kPiecePositions = 256;  ///< positions of a piece: softmax tile, unit of commit, ring and eviction
inline constexpr size_t kKvGroup = 32;          ///< dimensions that share a scale (int8, int4)
inline constexpr size_t kVectorSlack = 64;      ///< bytes that may be read past the last row of a block whose rows have a short end

enum class KvType : uint8_t { kF32, kF16, kBF16, kInt8, kFp8, kInt4 };

std::string_view kv_type_name(KvType type);
/// The type of a name (f32 f16 bf16 int8 fp8 int4; q8_0 and q4_0 are understood as int8 and int4), or nothing.
std::optional<KvType> parse_kv_type(std::string_view name);
std::span<const KvType> all_kv_types();

struct KvRowSize {
  size_t code_bytes;   ///< codes of one row, padding of a short last group included
  size_t scale_bytes;  ///< scales of one row
  size_t bytes() const { return code_bytes + scale_bytes; }
};
KvRowSize kv_row_size(KvType type, size_t dim);
size_t kv_element_bits(KvType type);                 ///< of one code, scales not counted
size_t kv_cell_bytes(KvType type);
size_t kv_scale_groups(KvType type, size_t dim);     ///< scales of one row
/// Bytes of a block, a multiple of 64. Where the rows do not end on a vector's border there is slack, so that a kernel may load a
/// whole vector at the end of any row.
size_t kv_block_bytes(KvType type, size_t dim);

/// Whether rows are stored after a Hadamard rotation of the head (q and k alike; undone on the output for V).
bool kv_type_is_rotated(KvType type);
/// Whether scores come from int8-quantized queries (int8 and int4 keys) rather than float ones.
bool kv_type_has_integer_scores(KvType type);

}  // namespace quern
