// Throwing with a formatted message, and checks for our own bugs. User and file errors throw; QUERN_CHECK aborts with the
// expression, file and line, because a broken invariant must not be caught and carried on with.
#pragma once
#include <fmt/format.h>

#include <string_view>

#include "quern/error.h"

namespace quern {

template <typename... Args>
[[noreturn]] void throw_error(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(kind, fmt::format(format, std::forward<Args>(args)...));
}

/// read(), with the path put before what it throws of a bad model.
template <typename Read>
auto naming_path(std::string_view path, Read read) {
  try {
    return read();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kModel) throw;
    throw Error(error.kind(), fmt::format("'{}': {}", path, error.what()));
  }
}

[[noreturn]] void check_failed(const char* expression, const char* file, int line, const std::string& detail);

}  // namespace quern

/// For invariants of our own code, outside hot loops. QUERN_CHECK(a < b, "a {} b {}", a, b).
#define QUERN_CHECK(condition, ...)                                                          \
  do {                                                                                       \
    if (!(condition)) ::quern::check_failed(#condition, __FILE__, __LINE__, fmt::format("" __VA_ARGS__)); \
  } while (false)
