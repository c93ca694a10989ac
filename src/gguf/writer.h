// Writes GGUF version 3: metadata and tensors in the order given, data aligned. Used by tests and by re-quantizing.
// Knows nothing of what the keys mean, except general.alignment, which it writes itself when it is not the default.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_set>
#include <vector>

#include "gguf/gguf.h"

namespace quern::gguf {

class Writer {
 public:
  /// alignment: a power of two from 8 to 2^20.
  explicit Writer(uint32_t alignment = 32);

  /// Adds a key (not empty, not there yet). The stored type is that of the argument: u8 … f64, bool, string.
  template <typename T>
  requires std::is_arithmetic_v<T>
  void set(std::string_view key, T value) {
    begin_value(key, type_of<T>());
    append(&value, sizeof(value));
  }
  void set(std::string_view key, std::string_view value);
  void set(std::string_view key, const char* value) { set(key, std::string_view(value)); }
  /// A copy of a value read from a file. general.alignment is left out: the writer's own holds.
  void set(std::string_view key, const Value& value);

  template <typename T>
  requires std::is_arithmetic_v<T>
  void set_array(std::string_view key, std::span<const T> values) {
    begin_array(key, type_of<T>(), values.size());
    append(values.data(), values.size_bytes());
  }
  void set_array(std::string_view key, std::span<const std::string_view> values);

  /// Declares a tensor; its offset follows from those before it. dims innermost first, dims[0] a multiple of the block.
  void add_tensor(std::string_view name, TensorType type, std::span<const uint64_t> dims);
  size_t n_tensors() const { return tensors_.size(); }

  /// The file up to its first tensor's data.
  std::string header() const;

  /// Gives the bytes of tensor i (as many as its shape and type need), valid until the next call.
  using TensorData = std::function<std::span<const std::byte>(size_t i)>;
  /// The whole file in memory.
  std::string bytes(const TensorData& data) const;
  /// The whole file on disk; an old file of that name is kept until the new one is complete.
  /// @throws Error(kRuntime) naming the path and the reason.
  void write(const std::filesystem::path& path, const TensorData& data) const;

 private:
  struct Tensor {
    std::string name;
    TensorType type;
    std::vector<uint64_t> dims;
    uint64_t offset, n_bytes;
  };
  template <typename T>
  static constexpr ValueType type_of() {
    if constexpr (std::is_same_v<T, bool>)
      return ValueType::Bool;
    else if constexpr (std::is_floating_point_v<T>)
      return sizeof(T) == 4 ? ValueType::F32 : ValueType::F64;
    else if constexpr (sizeof(T) == 1)
      return std::is_signed_v<T> ? ValueType::I8 : ValueType::U8;
    else if constexpr (sizeof(T) == 2)
      return std::is_signed_v<T> ? ValueType::I16 : ValueType::U16;
    else if constexpr (sizeof(T) == 4)
      return std::is_signed_v<T> ? ValueType::I32 : ValueType::U32;
    else
      return std::is_signed_v<T> ? ValueType::I64 : ValueType::U64;
  }
  void begin_value(std::string_view key, ValueType type);
  void begin_array(std::string_view key, ValueType element_type, uint64_t n);
  void append(const void* data, size_t n_bytes) { metadata_.append(static_cast<const char*>(data), n_bytes); }
  void append_string(std::string_view text);
  /// Calls sink(bytes) for every run of bytes of the file in order.
  void emit(const TensorData& data, const std::function<void(std::string_view)>& sink) const;

  uint32_t alignment_;
  std::string metadata_;
  uint64_t n_key_values_ = 0;
  std::vector<Tensor> tensors_;
  uint64_t data_bytes_ = 0;
  std::unordered_set<std::string> keys_, names_;
};

}  // namespace quern::gguf
