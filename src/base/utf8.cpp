// Decoding by the well-formedness table of the Unicode standard (table 3-7).
#include "base/utf8.h"

namespace quern {

Utf8Char utf8_decode(std::string_view text, size_t offset) {
  const auto byte = [&](size_t i) { return i < text.size() ? uint8_t(text[i]) : uint8_t(0); };
  const auto follows = [&](size_t i, uint8_t low, uint8_t high) { return byte(i) >= low && byte(i) <= high; };
  const uint8_t b0 = byte(offset);
  const Utf8Char invalid{0xfffd, 1, false};
  if (b0 < 0x80) return {b0, 1, true};
  if (b0 < 0xc2 || b0 > 0xf4) return invalid;
  if (b0 < 0xe0) {
    if (!follows(offset + 1, 0x80, 0xbf)) return invalid;
    return {uint32_t(b0 & 0x1f) << 6 | uint32_t(byte(offset + 1) & 0x3f), 2, true};
  }
  if (b0 < 0xf0) {
    const uint8_t low = b0 == 0xe0 ? 0xa0 : 0x80, high = b0 == 0xed ? 0x9f : 0xbf;
    if (!follows(offset + 1, low, high) || !follows(offset + 2, 0x80, 0xbf)) return invalid;
    return {uint32_t(b0 & 0x0f) << 12 | uint32_t(byte(offset + 1) & 0x3f) << 6 | uint32_t(byte(offset + 2) & 0x3f), 3, true};
  }
  const uint8_t low = b0 == 0xf0 ? 0x90 : 0x80, high = b0 == 0xf4 ? 0x8f : 0xbf;
  if (!follows(offset + 1, low, high) || !follows(offset + 2, 0x80, 0xbf) || !follows(offset + 3, 0x80, 0xbf)) return invalid;
  return {uint32_t(b0 & 0x07) << 18 | uint32_t(byte(offset + 1) & 0x3f) << 12 | uint32_t(byte(offset + 2) & 0x3f) << 6 | uint32_t(byte(offset + 3) & 0x3f), 4, true};
}

void utf8_append(std::string& out, uint32_t c) {
  if (c < 0x80) {
    out += char(c);
  } else if (c < 0x800) {
    out += {char(0xc0 | c >> 6), char(0x80 | (c & 0x3f))};
  } else if (c < 0x10000) {
    out += {char(0xe0 | c >> 12), char(0x80 | (c >> 6 & 0x3f)), char(0x80 | (c & 0x3f))};
  } else {
    out += {char(0xf0 | c >> 18), char(0x80 | (c >> 12 & 0x3f)), char(0x80 | (c >> 6 & 0x3f)), char(0x80 | (c & 0x3f))};
  }
}

size_t utf8_incomplete_tail(std::string_view text) {
  for (size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const uint8_t b = uint8_t(text[text.size() - back]);
    if ((b & 0xc0) == 0x80) continue;
    const size_t wanted = b >= 0xf0 && b <= 0xf4 ? 4 : b >= 0xe0 && b < 0xf0 ? 3 : b >= 0xc2 && b < 0xe0 ? 2 : 1;
    return wanted > back ? back : 0;
  }
  return 0;
}

std::string utf8_repair(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const Utf8Char c = utf8_decode(text, i);
    if (c.valid) out.append(text.substr(i, c.n_bytes));
    else utf8_append(out, 0xfffd);
    i += c.n_bytes;
  }
  return out;
}

}  // namespace quern
