// Puts a GGUF file together byte by byte, so that every field can be wrong. Knows the layout and checks nothing.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quern::gguf::testing {

/// Bytes under construction; every call appends and returns *this.
struct Bytes {
  std::string data;
  template <typename T>
  Bytes& number(T value) {
    data.append(reinterpret_cast<const char*>(&value), sizeof(value));
    return *this;
  }
  Bytes& u8(uint8_t value) { return number(value); }
  Bytes& u32(uint32_t value) { return number(value); }
  Bytes& u64(uint64_t value) { return number(value); }
  Bytes& raw(std::string_view bytes) {
    data += bytes;
    return *this;
  }
  Bytes& string(std::string_view text) { return u64(text.size()).raw(text); }
};

enum : uint32_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64, kI64, kF64 };

/// A key-value: the key, the type id, and what follows.
inline std::string kv(std::string_view key, uint32_t type, const Bytes& value) {
  return Bytes().string(key).u32(type).raw(value.data).data;
}
inline std::string kv_string(std::string_view key, std::string_view text) {
  return kv(key, kString, Bytes().string(text));
}
inline std::string kv_u32(std::string_view key, uint32_t value) {
  return kv(key, kU32, Bytes().u32(value));
}

/// A tensor info.
inline std::string tensor(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type, uint64_t offset) {
  Bytes out;
  out.string(name).u32(uint32_t(dims.size()));
  for (const uint64_t dim : dims) out.u64(dim);
  return out.u32(type).u64(offset).data;
}

struct File {
  std::string magic = "GGUF";
  uint32_t version = 3;
  std::vector<std::string> tensors;
  std::vector<std::string> key_values = {kv_string("general.architecture", "llama")};
  uint64_t alignment = 32;                    ///< padding really done
  uint64_t data_bytes = 0;                    ///< zeros after the padding
  int64_t n_tensors = -1, n_key_values = -1;  ///< as written; −1 is the true number

  std::string bytes() const {
    Bytes out;
    out.raw(magic).u32(version);
    out.u64(n_tensors < 0 ? tensors.size() : uint64_t(n_tensors));
    out.u64(n_key_values < 0 ? key_values.size() : uint64_t(n_key_values));
    for (const std::string& key_value : key_values) out.raw(key_value);
    for (const std::string& info : tensors) out.raw(info);
    out.data.resize((out.data.size() + alignment - 1) / alignment * alignment + data_bytes);
    return out.data;
  }
};

inline std::span<const std::byte> as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

}  // namespace quern::gguf::testing
