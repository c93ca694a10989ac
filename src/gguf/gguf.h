// What a GGUF file says: metadata and the tensor table. parse() takes bytes and knows nothing of files; it never
// touches tensor data. The file is untrusted: every count, length, offset and product is checked, and a bad file gives
// one Error(kModel) naming field, offset, the value found and the value allowed, in memory bounded by the bytes given.
// Format: the GGUF specification (ggml docs/gguf.md), versions 2 and 3, little-endian.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "quant/format.h"

namespace quern::gguf {

enum class ValueType : uint32_t { U8, I8, U16, I16, U32, I32, F32, Bool, String, Array, U64, I64, F64 };

std::string_view value_type_name(ValueType type);

/// An array's elements lie in the file's bytes (which must outlive it). Strings are views, indexed once.
struct Array {
  ValueType element_type = ValueType::U8;
  uint64_t size = 0;
  std::span<const std::byte> bytes;       ///< raw little-endian elements, for all but strings
  std::vector<std::string_view> strings;  ///< for element_type String
  /// Element i as a number (bools are 0 and 1). @throws Error(kModel) when the type is not numeric (not an integer).
  double number(size_t i) const;
  int64_t integer(size_t i) const;
};

/// One metadata value: integers widened, text as a view into the file's bytes.
struct Value {
  ValueType type = ValueType::U8;
  std::variant<uint64_t, int64_t, double, bool, std::string_view, Array> data;
};

struct TensorInfo {
  std::string_view name;
  TensorType type = TensorType::F32;
  const FormatInfo* format = nullptr;
  std::vector<uint64_t> dims;  ///< innermost first, as in the file (dims[0] is the row length)
  uint64_t offset = 0;         ///< from the start of the data section of its part
  uint32_t part = 0;           ///< of a split set, counted from 0
  uint64_t n_elems = 0;
  uint64_t n_bytes = 0;
  std::span<const std::byte> data;  ///< filled by ModelFile; empty after parse() alone
};

struct Header {
  uint32_t version = 0;
  std::vector<std::pair<std::string_view, Value>> metadata;  ///< file order
  std::unordered_map<std::string_view, size_t> index;        ///< key to position in `metadata`
  std::vector<TensorInfo> tensors;                           ///< file order
  uint64_t alignment = 32;
  uint64_t data_offset = 0;  ///< where the tensor data starts in the file

  const Value* find(std::string_view key) const;
  const TensorInfo* find_tensor(std::string_view name) const;
  std::unordered_map<std::string_view, size_t> tensor_index;

  /// Typed look-ups. A missing key gives nullopt; a value of another kind throws Error(kModel) naming key, found and
  /// wanted.
  std::optional<uint64_t> get_uint(std::string_view key) const;  ///< any integer type, not negative
  std::optional<int64_t> get_int(std::string_view key) const;
  std::optional<double> get_float(std::string_view key) const;  ///< float or integer types
  std::optional<bool> get_bool(std::string_view key) const;
  std::optional<std::string_view> get_string(std::string_view key) const;
  const Array* get_array(std::string_view key) const;
};

/// Parses a header. `file_bytes` is the whole file, or with check_data false at least the header: then tensors may lie
/// past the end of the bytes given (offsets and overlaps are checked all the same).
/// @throws Error(kModel)
Header parse(std::span<const std::byte> file_bytes, bool check_data = true);

/// Text from a file as it may stand in a message: cut at max_bytes, control characters and invalid UTF-8 escaped,
/// quoted.
std::string quoted(std::string_view text, size_t max_bytes = 80);

}  // namespace quern::gguf
