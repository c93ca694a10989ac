// A JSON string to bytes.
#include "json_line.h"

#include <charconv>

#include "base/check.h"
#include "base/utf8.h"

namespace quern::cli {

namespace {

[[noreturn]] void bad_line(size_t line_number, std::string_view why) {
  throw_error(ErrorKind::kUsage, "line {} is not a JSON string: {}", line_number, why);
}

/// The four hexadecimal digits at `at`, or −1.
int32_t hex4(std::string_view text, size_t at) {
  if (at + 4 > text.size()) return -1;
  uint32_t value = 0;
  const char* end = text.data() + at + 4;
  const auto [stop, error] = std::from_chars(text.data() + at, end, value, 16);
  return error == std::errc() && stop == end ? int32_t(value) : -1;
}

bool is_high_surrogate(int32_t unit) {
  return unit >= 0xd800 && unit < 0xdc00;
}
bool is_low_surrogate(int32_t unit) {
  return unit >= 0xdc00 && unit < 0xe000;
}

/// Appends the character of the \u escape whose digits are at `at`; returns the offset after it (and after its
/// partner).
size_t append_escape(std::string& out, std::string_view text, size_t at, size_t line_number) {
  const int32_t unit = hex4(text, at);
  if (unit < 0) bad_line(line_number, "\\u wants four hexadecimal digits");
  at += 4;
  if (is_high_surrogate(unit) && text.substr(at, 2) == "\\u") {
    const int32_t low = hex4(text, at + 2);
    if (is_low_surrogate(low)) {
      utf8_append(out, 0x10000u + (uint32_t(unit - 0xd800) << 10) + uint32_t(low - 0xdc00));
      return at + 6;
    }
  }
  utf8_append(out, is_high_surrogate(unit) || is_low_surrogate(unit) ? 0xfffdu : uint32_t(unit));
  return at;
}

}  // namespace

std::string parse_json_string(std::string_view line, size_t line_number) {
  constexpr std::string_view kBlanks = " \t\r";
  const size_t first = line.find_first_not_of(kBlanks), last = line.find_last_not_of(kBlanks);
  if (first == std::string_view::npos || line[first] != '"')
    bad_line(line_number, "it does not begin with a quotation mark");
  std::string out;
  size_t at = first + 1;
  while (at <= last && line[at] != '"') {
    if (line[at] != '\\') {
      out += line[at++];
      continue;
    }
    if (at + 1 > last) break;
    constexpr std::string_view kEscapes = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
    const char escape = line[at + 1];
    const size_t known = kEscapes.find(escape);
    if (escape != 'u' && known == std::string_view::npos) bad_line(line_number, "unknown escape");
    if (escape != 'u') out += kMeanings[known];
    at = escape == 'u' ? append_escape(out, line, at + 2, line_number) : at + 2;
  }
  if (at > last || line[at] != '"') bad_line(line_number, "it does not end with a quotation mark");
  if (at < last) bad_line(line_number, "something follows the closing quotation mark");
  return out;
}

}  // namespace quern::cli
