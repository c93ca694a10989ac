// The formats a tensor can be stored in: one row each. Names and numbers are those of the GGUF specification (ggml_type).
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace quern {

enum class TensorType : uint32_t {
  F32 = 0, F16 = 1, Q4_0 = 2, Q4_1 = 3, Q5_0 = 6, Q5_1 = 7, Q8_0 = 8, Q8_1 = 9,
  Q2_K = 10, Q3_K = 11, Q4_K = 12, Q5_K = 13, Q6_K = 14, Q8_K = 15,
  IQ2_XXS = 16, IQ2_XS = 17, IQ3_XXS = 18, IQ1_S = 19, IQ4_NL = 20, IQ3_S = 21, IQ2_S = 22, IQ4_XS = 23,
  I8 = 24, I16 = 25, I32 = 26, I64 = 27, F64 = 28, IQ1_M = 29, BF16 = 30,
  TQ1_0 = 34, TQ2_0 = 35, MXFP4 = 39, NVFP4 = 40, Q1_0 = 41, Q2_0 = 42
};

struct FormatInfo {
  TensorType type;
  std::string_view name;   ///< as in the specification, for example "Q4_K"
  uint32_t block_elems;    ///< elements per block; a row is a whole number of blocks
  uint32_t block_bytes;
  bool is_quantized;       ///< block format with int8-activation matmul (false: float or plain integers)
  bool can_decode;         ///< decode_row and the matmuls know it
};

/// The row of a type id from a file, or nullptr when the id is unknown.
const FormatInfo* find_format(uint32_t type_id);
/// The row of a known type.
const FormatInfo& format_info(TensorType type);
/// The name a type id had before it was removed from the specification ("Q4_0_4_4"), or empty. No current file has one.
std::string_view removed_format_name(uint32_t type_id);
/// All rows, in order of type id.
std::span<const FormatInfo> all_formats();

/// Bytes of a row of n_elems (a multiple of block_elems).
inline size_t row_bytes(TensorType type, size_t n_elems) {
  const FormatInfo& f = format_info(type);
  return n_elems / f.block_elems * f.block_bytes;
}

}  // namespace quern
