// Look-ups in a parsed header, and the numbers of an array. Parsing is in parse.cpp.
#include "gguf/gguf.h"

#include <array>
#include <cstring>

#include "base/check.h"
#include "base/utf8.h"

namespace quern::gguf {
namespace {

template <typename T>
T load(std::span<const std::byte> bytes, size_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

/// Calls visit(element) with element i in its own type.
template <typename Visit>
auto visit_element(const Array& array, size_t i, Visit visit) -> decltype(visit(uint8_t())) {
  QUERN_CHECK(i < array.size, "element {} of {}", i, array.size);
  switch (array.element_type) {
    case ValueType::U8:
    case ValueType::Bool:
      return visit(load<uint8_t>(array.bytes, i));
    case ValueType::I8:
      return visit(load<int8_t>(array.bytes, i));
    case ValueType::U16:
      return visit(load<uint16_t>(array.bytes, i));
    case ValueType::I16:
      return visit(load<int16_t>(array.bytes, i));
    case ValueType::U32:
      return visit(load<uint32_t>(array.bytes, i));
    case ValueType::I32:
      return visit(load<int32_t>(array.bytes, i));
    case ValueType::U64:
      return visit(load<uint64_t>(array.bytes, i));
    case ValueType::I64:
      return visit(load<int64_t>(array.bytes, i));
    case ValueType::F32:
      return visit(load<float>(array.bytes, i));
    case ValueType::F64:
      return visit(load<double>(array.bytes, i));
    case ValueType::String:
    case ValueType::Array:
      break;
  }
  throw_error(ErrorKind::kModel, "a metadata array: found elements of type {}, wanted numbers",
              value_type_name(array.element_type));
}

[[noreturn]] void wrong_kind(std::string_view key, const Value& value, std::string_view wanted) {
  throw_error(ErrorKind::kModel, "metadata {}: found a value of type {}, wanted {}", quoted(key),
              value_type_name(value.type), wanted);
}

}  // namespace

std::string_view value_type_name(ValueType type) {
  constexpr std::array<std::string_view, 13> kNames = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                                       "bool", "string", "array", "u64", "i64", "f64"};
  return size_t(type) < kNames.size() ? kNames[size_t(type)] : "unknown";
}

std::string quoted(std::string_view text, size_t max_bytes) {
  std::string out = "'";
  size_t i = 0;
  while (i < text.size()) {
    const Utf8Char c = utf8_decode(text, i);
    if (i + c.n_bytes > max_bytes) break;
    const bool is_control = c.code_point < 0x20 || (c.code_point >= 0x7f && c.code_point < 0xa0);
    if (c.code_point == '\n') {
      out += "\\n";
    } else if (!c.valid || is_control) {
      for (size_t j = 0; j < c.n_bytes; ++j) out += fmt::format("\\x{:02x}", uint8_t(text[i + j]));
    } else {
      out += text.substr(i, c.n_bytes);
    }
    i += c.n_bytes;
  }
  out += "'";
  if (i < text.size()) out += fmt::format("… ({} bytes)", text.size());
  return out;
}

double Array::number(size_t i) const {
  return visit_element(*this, i, [](auto element) { return double(element); });
}

int64_t Array::integer(size_t i) const {
  if (element_type == ValueType::F32 || element_type == ValueType::F64) {
    throw_error(ErrorKind::kModel, "a metadata array: found elements of type {}, wanted integers",
                value_type_name(element_type));
  }
  return visit_element(*this, i, [](auto element) { return int64_t(element); });
}

const Value* Header::find(std::string_view key) const {
  const auto at = index.find(key);
  return at == index.end() ? nullptr : &metadata[at->second].second;
}

const TensorInfo* Header::find_tensor(std::string_view name) const {
  const auto at = tensor_index.find(name);
  return at == tensor_index.end() ? nullptr : &tensors[at->second];
}

std::optional<uint64_t> Header::get_uint(std::string_view key) const {
  const Value* value = find(key);
  if (!value) return std::nullopt;
  if (const auto* u = std::get_if<uint64_t>(&value->data)) return *u;
  const auto* i = std::get_if<int64_t>(&value->data);
  if (!i) wrong_kind(key, *value, "an integer");
  if (*i < 0) throw_error(ErrorKind::kModel, "metadata {}: found {}, allowed 0 or more", quoted(key), *i);
  return uint64_t(*i);
}

std::optional<int64_t> Header::get_int(std::string_view key) const {
  const Value* value = find(key);
  if (!value) return std::nullopt;
  if (const auto* i = std::get_if<int64_t>(&value->data)) return *i;
  const auto* u = std::get_if<uint64_t>(&value->data);
  if (!u) wrong_kind(key, *value, "an integer");
  if (*u > uint64_t(INT64_MAX))
    throw_error(ErrorKind::kModel, "metadata {}: found {}, allowed at most {}", quoted(key), *u, INT64_MAX);
  return int64_t(*u);
}

std::optional<double> Header::get_float(std::string_view key) const {
  const Value* value = find(key);
  if (!value) return std::nullopt;
  if (const auto* f = std::get_if<double>(&value->data)) return *f;
  if (const auto* u = std::get_if<uint64_t>(&value->data)) return double(*u);
  if (const auto* i = std::get_if<int64_t>(&value->data)) return double(*i);
  wrong_kind(key, *value, "a number");
}

std::optional<bool> Header::get_bool(std::string_view key) const {
  const Value* value = find(key);
  if (!value) return std::nullopt;
  if (const auto* b = std::get_if<bool>(&value->data)) return *b;
  wrong_kind(key, *value, "a bool");
}

std::optional<std::string_view> Header::get_string(std::string_view key) const {
  const Value* value = find(key);
  if (!value) return std::nullopt;
  if (const auto* s = std::get_if<std::string_view>(&value->data)) return *s;
  wrong_kind(key, *value, "a string");
}

const Array* Header::get_array(std::string_view key) const {
  const Value* value = find(key);
  if (!value) return nullptr;
  if (const auto* a = std::get_if<Array>(&value->data)) return a;
  wrong_kind(key, *value, "an array");
}

}  // namespace quern::gguf
