// Reading untrusted bytes: every read is checked against the end, every product and sum against overflow.
// Knows nothing of files; a failed read throws Error(kModel) naming what was wanted and where.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

#include "base/check.h"

namespace quern {

/// a·b, or throws kModel naming `what`.
inline uint64_t checked_mul(uint64_t a, uint64_t b, std::string_view what) {
  uint64_t r;
  if (__builtin_mul_overflow(a, b, &r)) throw_error(ErrorKind::kModel, "{}: {} x {} overflows 64 bits", what, a, b);
  return r;
}
/// a+b, or throws kModel naming `what`.
inline uint64_t checked_add(uint64_t a, uint64_t b, std::string_view what) {
  uint64_t r;
  if (__builtin_add_overflow(a, b, &r)) throw_error(ErrorKind::kModel, "{}: {} + {} overflows 64 bits", what, a, b);
  return r;
}

class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  size_t offset() const { return offset_; }
  size_t remaining() const { return bytes_.size() - offset_; }

  /// A little-endian number. @throws Error(kModel) at the end of the bytes.
  template <typename T>
  T read(std::string_view what) {
    static_assert(std::is_arithmetic_v<T>);
    T value;
    std::memcpy(&value, take(sizeof(T), what).data(), sizeof(T));
    return value;
  }

  /// The next n bytes, not copied. @throws Error(kModel) when fewer are left.
  std::span<const std::byte> take(uint64_t n, std::string_view what) {
    if (n > remaining()) {
      throw_error(ErrorKind::kModel, "{}: needs {} bytes at offset {}, but the file ends after {}", what, n, offset_, remaining());
    }
    const auto out = bytes_.subspan(offset_, size_t(n));
    offset_ += size_t(n);
    return out;
  }

 private:
  std::span<const std::byte> bytes_;
  size_t offset_ = 0;
};

}  // namespace quern
