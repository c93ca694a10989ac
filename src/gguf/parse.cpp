// parse(): one pass over untrusted bytes. Nothing is allocated before the bytes that justify it have been seen: every
// count is held against the bytes left and the smallest encoding of what is counted.
#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "base/check.h"
#include "base/cursor.h"
#include "gguf/gguf.h"

namespace quern::gguf {
namespace {

constexpr uint64_t kMaxKeyBytes = 65535;  // the specification's limit
constexpr uint64_t kMaxNameBytes = 65535;
constexpr uint32_t kMaxDims = 4;
constexpr uint64_t kMinAlignment = 8, kMaxAlignment = 1 << 20;
constexpr uint64_t kMinKeyValueBytes = 8 + 1 + 4 + 1;        // key length, key, type, value
constexpr uint64_t kMinTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;  // name length, name, n_dims, one dim, type, offset

struct OtherMagic {
  std::string_view prefix, what;
};
constexpr OtherMagic kOtherMagics[] = {
    {"ggjt", "a GGJT file, from before GGUF"},
    {"tjgg", "a GGJT file, from before GGUF; convert the model again"},
    {"lmgg", "a GGML file, from before GGUF; convert the model again"},
    {"fmgg", "a GGMF file, from before GGUF; convert the model again"},
    {"algg", "a GGLA adapter file, from before GGUF"},
    {"GGML", "a GGML file, from before GGUF; convert the model again"},
    {"FUGG", "GGUF with its bytes swapped"},
    {"version https://git-lfs", "a git-lfs pointer, not the file itself; fetch it with git lfs pull"},
    {"<!DOCTYPE", "an HTML page, not a model; the download went wrong"},
    {"<html", "an HTML page, not a model; the download went wrong"},
    {"PK\x03\x04", "a zip archive (perhaps a PyTorch checkpoint); a GGUF file is needed"},
};

/// Bytes of one array element or scalar; 0 for strings and arrays.
uint32_t scalar_bytes(ValueType type) {
  switch (type) {
    case ValueType::U8:
    case ValueType::I8:
    case ValueType::Bool:
      return 1;
    case ValueType::U16:
    case ValueType::I16:
      return 2;
    case ValueType::U32:
    case ValueType::I32:
    case ValueType::F32:
      return 4;
    case ValueType::U64:
    case ValueType::I64:
    case ValueType::F64:
      return 8;
    case ValueType::String:
    case ValueType::Array:
      break;
  }
  return 0;
}

class Parser {
 public:
  Parser(std::span<const std::byte> bytes, bool check_data) : bytes_(bytes), cursor_(bytes), check_data_(check_data) {}

  Header run() {
    read_preamble();
    read_metadata();
    read_alignment();
    read_tensors();
    place_data();
    return std::move(header_);
  }

 private:
  void read_preamble();
  void read_metadata();
  void read_alignment();
  void read_tensors();
  void read_tensor(uint64_t i);
  void read_shape(TensorInfo& tensor);
  void place_data();
  void check_overlaps() const;

  Value read_value(ValueType type, std::string_view what);
  Array read_array(std::string_view what);
  ValueType read_value_type(std::string_view what);
  std::string_view read_string(std::string_view what, uint64_t max_bytes);
  uint64_t read_count(std::string_view what, uint64_t min_bytes_each);
  void check_bool(std::byte value, uint64_t offset, std::string_view what) const;

  std::span<const std::byte> bytes_;
  Cursor cursor_;
  bool check_data_;
  Header header_;
  uint64_t n_tensors_ = 0, n_key_values_ = 0;
};

void Parser::read_preamble() {
  const auto magic = cursor_.take(4, "magic");
  if (std::memcmp(magic.data(), "GGUF", 4) != 0) {
    const std::string_view start(reinterpret_cast<const char*>(bytes_.data()), bytes_.size());
    for (const OtherMagic& other : kOtherMagics) {
      if (start.starts_with(other.prefix))
        throw_error(ErrorKind::kModel, "magic at offset 0: found {}; this is {}", quoted(start.substr(0, 4)),
                    other.what);
    }
    throw_error(ErrorKind::kModel, "magic at offset 0: found {}, allowed 'GGUF'; this is not a GGUF file",
                quoted(start.substr(0, 4)));
  }
  header_.version = cursor_.read<uint32_t>("version");
  const uint32_t swapped = __builtin_bswap32(header_.version);
  if (header_.version > 0xffff && swapped <= 0xffff) {
    throw_error(
        ErrorKind::kModel,
        "version at offset 4: found {} with its bytes swapped; this is a big-endian file, only little-endian is "
        "supported: convert it (gguf-convert-endian)",
        swapped);
  }
  if (header_.version != 2 && header_.version != 3) {
    throw_error(ErrorKind::kModel, "version at offset 4: found {}, allowed 2 or 3{}", header_.version,
                header_.version == 1 ? "; version 1 was short-lived: convert the model again" : "");
  }
  n_tensors_ = read_count("tensor count", kMinTensorBytes);
  n_key_values_ = read_count("metadata count", kMinKeyValueBytes);
}

uint64_t Parser::read_count(std::string_view what, uint64_t min_bytes_each) {
  const uint64_t offset = cursor_.offset();
  const uint64_t count = cursor_.read<uint64_t>(what);
  const uint64_t allowed = cursor_.remaining() / min_bytes_each;
  if (count > allowed) {
    throw_error(ErrorKind::kModel, "{} at offset {}: found {}, allowed at most {} ({} bytes are left in the file)",
                what, offset, count, allowed, cursor_.remaining());
  }
  return count;
}

std::string_view Parser::read_string(std::string_view what, uint64_t max_bytes) {
  const uint64_t offset = cursor_.offset();
  const uint64_t n_bytes = cursor_.read<uint64_t>(what);
  const uint64_t allowed = std::min<uint64_t>(max_bytes, cursor_.remaining());
  if (n_bytes > allowed) {
    throw_error(ErrorKind::kModel,
                "length of {} at offset {}: found {} bytes, allowed at most {} ({} bytes are left in the file)", what,
                offset, n_bytes, allowed, cursor_.remaining());
  }
  const auto bytes = cursor_.take(n_bytes, what);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

ValueType Parser::read_value_type(std::string_view what) {
  const uint64_t offset = cursor_.offset();
  const uint32_t id = cursor_.read<uint32_t>(what);
  if (id > uint32_t(ValueType::F64)) {
    throw_error(ErrorKind::kModel, "type of {} at offset {}: found {}, allowed 0 to 12", what, offset, id);
  }
  return ValueType(id);
}

void Parser::check_bool(std::byte value, uint64_t offset, std::string_view what) const {
  if (uint8_t(value) > 1) {
    throw_error(ErrorKind::kModel, "{} at offset {}: found a bool of {}, allowed 0 or 1", what, offset, uint8_t(value));
  }
}

Array Parser::read_array(std::string_view what) {
  Array array;
  array.element_type = read_value_type(fmt::format("the elements of {}", what));
  if (array.element_type == ValueType::Array) {
    throw_error(ErrorKind::kModel, "{} at offset {}: found an array of arrays, allowed arrays of scalars or strings",
                what, cursor_.offset() - 4);
  }
  const uint32_t element_bytes = scalar_bytes(array.element_type);
  array.size = read_count(fmt::format("element count of {}", what), element_bytes ? element_bytes : sizeof(uint64_t));
  if (element_bytes) {
    const uint64_t offset = cursor_.offset();
    array.bytes = cursor_.take(array.size * element_bytes, what);
    if (array.element_type == ValueType::Bool) {
      for (size_t i = 0; i < array.bytes.size(); ++i) check_bool(array.bytes[i], offset + i, what);
    }
    return array;
  }
  array.strings.reserve(size_t(array.size));
  const std::string element = fmt::format("a string in {}", what);
  for (uint64_t i = 0; i < array.size; ++i) array.strings.push_back(read_string(element, UINT64_MAX));
  return array;
}

Value Parser::read_value(ValueType type, std::string_view what) {
  const auto value = [type](auto data) { return Value{type, std::move(data)}; };
  switch (type) {
    case ValueType::U8:
      return value(uint64_t(cursor_.read<uint8_t>(what)));
    case ValueType::U16:
      return value(uint64_t(cursor_.read<uint16_t>(what)));
    case ValueType::U32:
      return value(uint64_t(cursor_.read<uint32_t>(what)));
    case ValueType::U64:
      return value(uint64_t(cursor_.read<uint64_t>(what)));
    case ValueType::I8:
      return value(int64_t(cursor_.read<int8_t>(what)));
    case ValueType::I16:
      return value(int64_t(cursor_.read<int16_t>(what)));
    case ValueType::I32:
      return value(int64_t(cursor_.read<int32_t>(what)));
    case ValueType::I64:
      return value(int64_t(cursor_.read<int64_t>(what)));
    case ValueType::F32:
      return value(double(cursor_.read<float>(what)));
    case ValueType::F64:
      return value(cursor_.read<double>(what));
    case ValueType::String:
      return value(read_string(what, UINT64_MAX));
    case ValueType::Array:
      return value(read_array(what));
    case ValueType::Bool:
      break;
  }
  const uint64_t offset = cursor_.offset();
  const std::byte byte = cursor_.take(1, what)[0];
  check_bool(byte, offset, what);
  return value(byte != std::byte(0));
}

void Parser::read_metadata() {
  header_.metadata.reserve(size_t(n_key_values_));
  header_.index.reserve(size_t(n_key_values_));
  for (uint64_t i = 0; i < n_key_values_; ++i) {
    const uint64_t offset = cursor_.offset();
    const std::string_view key = read_string(fmt::format("metadata key {} of {}", i + 1, n_key_values_), kMaxKeyBytes);
    if (key.empty())
      throw_error(ErrorKind::kModel, "metadata key {} of {} at offset {}: found an empty key", i + 1, n_key_values_,
                  offset);
    if (!header_.index.emplace(key, size_t(i)).second) {
      throw_error(ErrorKind::kModel, "metadata key {} of {} at offset {}: {} is there twice", i + 1, n_key_values_,
                  offset, quoted(key));
    }
    const std::string what = fmt::format("metadata {}", quoted(key));
    const ValueType type = read_value_type(what);
    header_.metadata.emplace_back(key, read_value(type, what));
  }
}

void Parser::read_alignment() {
  const Value* value = header_.find("general.alignment");
  if (!value) return;
  if (value->type != ValueType::U32) {
    throw_error(ErrorKind::kModel, "metadata 'general.alignment': found a value of type {}, allowed u32",
                value_type_name(value->type));
  }
  header_.alignment = std::get<uint64_t>(value->data);
  if (!std::has_single_bit(header_.alignment) || header_.alignment < kMinAlignment ||
      header_.alignment > kMaxAlignment) {
    throw_error(ErrorKind::kModel, "metadata 'general.alignment': found {}, allowed a power of two from {} to {}",
                header_.alignment, kMinAlignment, kMaxAlignment);
  }
}

void Parser::read_tensors() {
  header_.tensors.reserve(size_t(n_tensors_));
  header_.tensor_index.reserve(size_t(n_tensors_));
  for (uint64_t i = 0; i < n_tensors_; ++i) read_tensor(i);
}

void Parser::read_tensor(uint64_t i) {
  TensorInfo tensor;
  const uint64_t offset = cursor_.offset();
  tensor.name = read_string(fmt::format("name of tensor {} of {}", i + 1, n_tensors_), kMaxNameBytes);
  if (tensor.name.empty())
    throw_error(ErrorKind::kModel, "tensor {} of {} at offset {}: found an empty name", i + 1, n_tensors_, offset);
  if (!header_.tensor_index.emplace(tensor.name, size_t(i)).second) {
    throw_error(ErrorKind::kModel, "tensor {} of {} at offset {}: the name {} is there twice", i + 1, n_tensors_,
                offset, quoted(tensor.name));
  }
  read_shape(tensor);
  const std::string what = fmt::format("tensor {}", quoted(tensor.name));
  const uint64_t type_offset = cursor_.offset();
  const uint32_t type_id = cursor_.read<uint32_t>(fmt::format("type of {}", what));
  tensor.format = find_format(type_id);
  if (!tensor.format) {
    const std::string_view removed = removed_format_name(type_id);
    throw_error(
        ErrorKind::kModel, "type of {} at offset {}: found id {}{}, allowed the ids of ggml types up to {}", what,
        type_offset, type_id,
        removed.empty() ? std::string() : fmt::format(" ({}, removed from GGUF: quantize the model again)", removed),
        uint32_t(all_formats().back().type));
  }
  tensor.type = tensor.format->type;
  if (tensor.dims[0] % tensor.format->block_elems != 0) {
    throw_error(ErrorKind::kModel, "{}: found rows of {} elements, allowed multiples of {} for type {}", what,
                tensor.dims[0], tensor.format->block_elems, tensor.format->name);
  }
  tensor.n_bytes = checked_mul(tensor.n_elems / tensor.format->block_elems, tensor.format->block_bytes, what);
  const uint64_t offset_offset = cursor_.offset();
  tensor.offset = cursor_.read<uint64_t>(fmt::format("offset of {}", what));
  if (tensor.offset % header_.alignment != 0) {
    throw_error(ErrorKind::kModel, "offset of {} at offset {}: found {}, allowed multiples of the alignment {}", what,
                offset_offset, tensor.offset, header_.alignment);
  }
  header_.tensors.push_back(std::move(tensor));
}

void Parser::read_shape(TensorInfo& tensor) {
  const std::string what = fmt::format("tensor {}", quoted(tensor.name));
  const uint64_t offset = cursor_.offset();
  const uint32_t n_dims = cursor_.read<uint32_t>(fmt::format("number of dimensions of {}", what));
  if (n_dims < 1 || n_dims > kMaxDims) {
    throw_error(ErrorKind::kModel, "number of dimensions of {} at offset {}: found {}, allowed 1 to {}", what, offset,
                n_dims, kMaxDims);
  }
  tensor.n_elems = 1;
  for (uint32_t d = 0; d < n_dims; ++d) {
    const uint64_t dim_offset = cursor_.offset();
    const uint64_t dim = cursor_.read<uint64_t>(fmt::format("dimension {} of {}", d, what));
    if (dim == 0)
      throw_error(ErrorKind::kModel, "dimension {} of {} at offset {}: found 0, allowed 1 or more", d, what,
                  dim_offset);
    tensor.n_elems =
        checked_mul(tensor.n_elems, dim, fmt::format("number of elements of {} at offset {}", what, dim_offset));
    tensor.dims.push_back(dim);
  }
}

void Parser::place_data() {
  const uint64_t end = cursor_.offset();
  header_.data_offset = (end + header_.alignment - 1) / header_.alignment * header_.alignment;
  for (const TensorInfo& tensor : header_.tensors) {
    const std::string what = fmt::format("end of the data of tensor {}", quoted(tensor.name));
    const uint64_t last = checked_add(checked_add(header_.data_offset, tensor.offset, what), tensor.n_bytes, what);
    if (check_data_ && last > bytes_.size()) {
      throw_error(
          ErrorKind::kModel,
          "tensor {}: its data ends at byte {}, but the file has {} bytes; it is truncated (download it again) or its "
          "header is wrong",
          quoted(tensor.name), last, bytes_.size());
    }
  }
  check_overlaps();
}

void Parser::check_overlaps() const {
  std::vector<uint32_t> order(header_.tensors.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(),
            [this](uint32_t a, uint32_t b) { return header_.tensors[a].offset < header_.tensors[b].offset; });
  for (size_t i = 1; i < order.size(); ++i) {
    const TensorInfo& before = header_.tensors[order[i - 1]];
    const TensorInfo& after = header_.tensors[order[i]];
    if (before.offset + before.n_bytes > after.offset) {
      throw_error(ErrorKind::kModel,
                  "tensors {} and {} overlap: the first takes bytes {} to {} of the data, the second starts at {}",
                  quoted(before.name), quoted(after.name), before.offset, before.offset + before.n_bytes, after.offset);
    }
  }
}

}  // namespace

Header parse(std::span<const std::byte> file_bytes, bool check_data) {
  return Parser(file_bytes, check_data).run();
}

}  // namespace quern::gguf
