// One JSON string, leniently: what it holds may be any bytes, and a lone surrogate escape becomes U+FFFD instead of an
// error.
#pragma once
#include <string>
#include <string_view>

namespace quern::cli {

/// The text of the JSON string that `line` holds (white space around it is allowed). Raw bytes, valid UTF-8 or not, are
/// kept.
/// @throws Error(kUsage) naming `line_number` and what is wrong.
std::string parse_json_string(std::string_view line, size_t line_number);

}  // namespace quern::cli
