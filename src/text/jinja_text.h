// Operations on marked texts: Python's str methods, counting characters and not bytes, keeping the marks of what came
// from the inputs. Knows nothing of syntax or of other value types.
#pragma once
#include <functional>
#include <optional>

#include "text/jinja_value.h"

namespace quern::jinja {

/// The length of the white space character (Python's str.isspace) at `offset`, or 0.
size_t space_length(std::string_view text, size_t offset);
/// The length of the character at `offset` (< size); invalid bytes are characters of their own.
size_t char_length(std::string_view text, size_t offset);

int64_t char_count(Heap& heap, const Str& text);
/// The byte where character `index` (0 ≤ index ≤ length) begins.
size_t char_offset(Heap& heap, const Str& text, int64_t index);
std::vector<Value> characters(Heap& heap, const Str& text);

enum Side : unsigned { kLeft = 1, kRight = 2, kBoth = 3 };
/// strip, lstrip, rstrip; `chars` null: white space.
Value strip(Heap& heap, const Str& text, unsigned sides, const Str* chars);
/// split and rsplit; `separator` null: runs of white space. `limit` < 0: no limit.
std::vector<Value> split(Heap& heap, const Str& text, const Str* separator, int64_t limit, bool from_right);
std::vector<Value> splitlines(Heap& heap, const Str& text, bool keep_ends);
Value replace(Heap& heap, const Str& text, const Str& from, const Str& to, int64_t limit);
Value join(Heap& heap, const Str& separator, const std::vector<const Str*>& parts);
Value repeat(Heap& heap, const Str& text, int64_t times);

/// The byte offset of the first (or last) occurrence at or after `from`; linear in the text.
std::optional<size_t> find(Heap& heap, std::string_view text, std::string_view needle, size_t from = 0);
std::optional<size_t> find_last(Heap& heap, std::string_view text, std::string_view needle);

enum class Case : uint8_t { Upper, Lower, Swap, Capitalize, Title, TitleFilter };
/// Changes the case. Latin, Greek, Cyrillic and Armenian letters; `TitleFilter` is jinja2's filter, which splits words
/// at white space, hyphens and brackets, and `Title` is str.title.
Value change_case(Heap& heap, const Str& text, Case how);
/// Each character through `map`, which appends what stands in its place.
Value map_chars(Heap& heap, const Str& text,
                const std::function<void(std::string_view character, std::string& out)>& map);
/// markupsafe.escape: & < > ' " as entities.
Value escape_html(Heap& heap, const Str& text);

uint32_t to_upper(uint32_t code_point);
uint32_t to_lower(uint32_t code_point);
bool is_letter(uint32_t code_point);

}  // namespace quern::jinja
