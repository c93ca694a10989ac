// UTF-8 on any bytes: decoding never fails, it marks what is not valid.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace quern {

struct Utf8Char {
  uint32_t code_point;  ///< U+FFFD where the bytes are not valid UTF-8
  uint8_t n_bytes;      ///< bytes taken, 1…4 (1 for an invalid byte)
  bool valid;
};

/// The character at `offset` (< text.size()). Overlong forms, surrogates and values above U+10FFFF are invalid.
Utf8Char utf8_decode(std::string_view text, size_t offset);

/// Appends the encoding of a code point (any value up to 0x10FFFF).
void utf8_append(std::string& out, uint32_t code_point);

/// How many bytes at the end of `text` are the beginning of a character that is not complete yet (0…3). Streaming output
/// holds these back so that no character is broken.
size_t utf8_incomplete_tail(std::string_view text);

/// A copy with every invalid byte replaced by U+FFFD, for JSON output and terminals.
std::string utf8_repair(std::string_view text);

}  // namespace quern
