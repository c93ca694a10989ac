// Marked texts: slicing, searching, splitting and case.
#include "text/jinja_text.h"

#include <algorithm>
#include <cstring>

#include "base/utf8.h"

namespace quern::jinja {

size_t space_length(std::string_view text, size_t offset) {
  const auto c = static_cast<unsigned char>(text[offset]);
  if (c < 0x80) return (c >= 9 && c <= 13) || (c >= 28 && c <= 32) ? 1 : 0;
  const Utf8Char decoded = utf8_decode(text, offset);
  const uint32_t p = decoded.code_point;
  const bool space = p == 0x85 || p == 0xA0 || p == 0x1680 || (p >= 0x2000 && p <= 0x200A) || p == 0x2028 ||
                     p == 0x2029 || p == 0x202F || p == 0x205F || p == 0x3000;
  return decoded.valid && space ? decoded.n_bytes : 0;
}

size_t char_length(std::string_view text, size_t offset) {
  return static_cast<unsigned char>(text[offset]) < 0x80 ? 1 : utf8_decode(text, offset).n_bytes;
}

int64_t char_count(Heap& heap, const Str& text) {
  if (text.n_chars < 0) {
    heap.tick_bytes(text.bytes.size());
    int64_t n = 0;
    for (size_t i = 0; i < text.bytes.size(); i += char_length(text.bytes, i)) ++n;
    text.n_chars = n;
  }
  return text.n_chars;
}

size_t char_offset(Heap& heap, const Str& text, int64_t index) {
  if (char_count(heap, text) == int64_t(text.bytes.size())) return size_t(index);
  size_t offset = 0;
  for (int64_t i = 0; i < index; ++i) offset += char_length(text.bytes, offset);
  heap.tick_bytes(offset);
  return offset;
}

std::vector<Value> characters(Heap& heap, const Str& text) {
  std::vector<Value> out;
  for (size_t i = 0; i < text.bytes.size();) {
    const size_t n = char_length(text.bytes, i);
    out.push_back(heap.slice(text, i, i + n));
    i += n;
  }
  return out;
}

namespace {

/// Whether the character at [offset, offset + n) is one of `chars`, or white space if `chars` is null.
bool strippable(std::string_view text, size_t offset, size_t n, const Str* chars) {
  if (chars == nullptr) return space_length(text, offset) != 0;
  const std::string_view wanted = text.substr(offset, n);
  for (size_t i = 0; i < chars->bytes.size();) {
    const size_t m = char_length(chars->bytes, i);
    if (chars->bytes.substr(i, m) == wanted) return true;
    i += m;
  }
  return false;
}

/// Where the character that ends at `end` begins.
size_t previous_char(std::string_view text, size_t end) {
  for (size_t n = std::min<size_t>(4, end); n > 1; --n) {
    if (char_length(text, end - n) == n) return end - n;
  }
  return end - 1;
}

std::vector<Value> split_spaces(Heap& heap, const Str& text, int64_t limit) {
  std::vector<Value> out;
  const std::string_view bytes = text.bytes;
  size_t i = 0;
  while (true) {
    for (size_t n; i < bytes.size() && (n = space_length(bytes, i)) != 0;) i += n;
    if (i == bytes.size()) return out;
    if (limit >= 0 && int64_t(out.size()) == limit) {
      const Value rest = heap.slice(text, i, bytes.size());
      out.push_back(strip(heap, *rest.str, kRight, nullptr));
      return out;
    }
    const size_t begin = i;
    while (i < bytes.size() && space_length(bytes, i) == 0) i += char_length(bytes, i);
    out.push_back(heap.slice(text, begin, i));
  }
}

std::vector<Value> rsplit_spaces(Heap& heap, const Str& text, int64_t limit) {
  std::vector<Value> words = split_spaces(heap, text, -1);
  if (limit < 0 || int64_t(words.size()) <= limit) return words;
  const size_t first = words.size() - size_t(limit);
  const Str* head_end = words[first - 1].str;
  const size_t end = size_t(head_end->bytes.data() - text.bytes.data()) + head_end->bytes.size();
  std::vector<Value> out{heap.slice(text, 0, end)};  // the white space in front stays, as in Python
  out.insert(out.end(), words.begin() + std::ptrdiff_t(first), words.end());
  return out;
}

}  // namespace

Value strip(Heap& heap, const Str& text, unsigned sides, const Str* chars) {
  const std::string_view bytes = text.bytes;
  size_t begin = 0, end = bytes.size();
  if (sides & kLeft) {
    while (begin < end) {
      const size_t n = char_length(bytes, begin);
      if (!strippable(bytes, begin, n, chars)) break;
      begin += n;
    }
  }
  if (sides & kRight) {
    while (end > begin) {
      const size_t last = previous_char(bytes, end);
      if (!strippable(bytes, last, end - last, chars)) break;
      end = last;
    }
  }
  heap.tick((begin + bytes.size() - end) * (chars ? 1 + chars->bytes.size() / 8 : 1) / 16 + 1);
  return heap.slice(text, begin, end);
}

std::optional<size_t> find(Heap& heap, std::string_view text, std::string_view needle, size_t from) {
  if (from > text.size()) return std::nullopt;
  if (needle.empty()) return from;
  // memmem is linear in glibc; std::string_view::find is not.
  const void* hit = memmem(text.data() + from, text.size() - from, needle.data(), needle.size());
  const size_t at = hit ? size_t(static_cast<const char*>(hit) - text.data()) : text.size();
  heap.tick_bytes(at - from + needle.size());
  if (!hit) return std::nullopt;
  return at;
}

std::optional<size_t> find_last(Heap& heap, std::string_view text, std::string_view needle) {
  if (needle.empty()) return text.size();
  heap.tick_bytes(text.size());
  // The first occurrence of the reversed needle in the reversed text, so that this is linear, too.
  const std::string reversed(text.rbegin(), text.rend()), wanted(needle.rbegin(), needle.rend());
  const auto at = find(heap, reversed, wanted);
  if (!at) return std::nullopt;
  return text.size() - *at - needle.size();
}

std::vector<Value> split(Heap& heap, const Str& text, const Str* separator, int64_t limit, bool from_right) {
  heap.tick_bytes(text.bytes.size());
  if (separator == nullptr) return from_right ? rsplit_spaces(heap, text, limit) : split_spaces(heap, text, limit);
  if (separator->bytes.empty()) fail("empty separator");
  std::vector<Value> out;
  if (from_right) {
    size_t end = text.bytes.size();
    while (limit < 0 || int64_t(out.size()) < limit) {
      const auto at = find_last(heap, text.bytes.substr(0, end), separator->bytes);
      if (!at) break;
      out.push_back(heap.slice(text, *at + separator->bytes.size(), end));
      end = *at;
    }
    out.push_back(heap.slice(text, 0, end));
    std::reverse(out.begin(), out.end());
    return out;
  }
  size_t begin = 0;
  while (limit < 0 || int64_t(out.size()) < limit) {
    const auto at = find(heap, text.bytes, separator->bytes, begin);
    if (!at) break;
    out.push_back(heap.slice(text, begin, *at));
    begin = *at + separator->bytes.size();
  }
  out.push_back(heap.slice(text, begin, text.bytes.size()));
  return out;
}

std::vector<Value> splitlines(Heap& heap, const Str& text, bool keep_ends) {
  heap.tick_bytes(text.bytes.size());
  std::vector<Value> out;
  const std::string_view bytes = text.bytes;
  size_t begin = 0;
  for (size_t i = 0; i < bytes.size();) {
    const Utf8Char c = utf8_decode(bytes, i);
    const uint32_t p = c.code_point;
    const bool ends = (p >= 10 && p <= 13) || (p >= 0x1C && p <= 0x1E) || p == 0x85 || p == 0x2028 || p == 0x2029;
    const size_t end = i;
    i += c.n_bytes;
    if (!ends) continue;
    if (p == '\r' && i < bytes.size() && bytes[i] == '\n') ++i;
    out.push_back(heap.slice(text, begin, keep_ends ? i : end));
    begin = i;
  }
  if (begin < bytes.size()) out.push_back(heap.slice(text, begin, bytes.size()));
  return out;
}

Value replace(Heap& heap, const Str& text, const Str& from, const Str& to, int64_t limit) {
  TextBuilder out;
  size_t begin = 0;
  const auto piece = [&](size_t b, size_t e) { out.append(*heap.slice(text, b, e).str); };
  const auto insert = [&] {
    heap.check_text(out.bytes.size() + to.bytes.size());
    heap.tick_bytes(to.bytes.size());
    out.append(to);
  };
  int64_t done = 0;
  if (from.bytes.empty()) {  // between all characters, as Python does
    for (; limit < 0 || done < limit; ++done) {
      insert();
      if (begin == text.bytes.size()) return heap.text(std::move(out), text.safe);
      const size_t n = char_length(text.bytes, begin);
      piece(begin, begin + n);
      begin += n;
    }
  } else {
    for (; limit < 0 || done < limit; ++done) {
      const auto at = find(heap, text.bytes, from.bytes, begin);
      if (!at) break;
      piece(begin, *at);
      insert();
      begin = *at + from.bytes.size();
    }
    if (done == 0) return Value::of(&text);
  }
  piece(begin, text.bytes.size());
  return heap.text(std::move(out), text.safe);
}

Value join(Heap& heap, const Str& separator, const std::vector<const Str*>& parts) {
  TextBuilder out;
  uint64_t n_bytes = 0;
  for (const Str* part : parts) n_bytes += part->bytes.size() + separator.bytes.size();
  heap.check_text(n_bytes);
  out.bytes.reserve(n_bytes);
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i) out.append(separator);
    out.append(*parts[i]);
  }
  return heap.text(std::move(out));
}

Value repeat(Heap& heap, const Str& text, int64_t times) {
  if (times <= 0 || text.bytes.empty()) return heap.view("");
  if (uint64_t(times) > heap.limits().max_text_bytes) heap.check_text(uint64_t(times));
  heap.check_text(text.bytes.size() * uint64_t(times));
  heap.tick_bytes(text.bytes.size() * uint64_t(times));
  TextBuilder out;
  out.bytes.reserve(text.bytes.size() * size_t(times));
  for (int64_t i = 0; i < times; ++i) out.append(text);
  return heap.text(std::move(out), text.safe);
}

Value map_chars(Heap& heap, const Str& text,
                const std::function<void(std::string_view character, std::string& out)>& map) {
  heap.tick(1 + text.bytes.size() / 4);
  TextBuilder out;
  auto mark = text.marks.begin();
  std::string piece;
  for (size_t i = 0; i < text.bytes.size();) {
    const size_t n = char_length(text.bytes, i);
    piece.clear();
    map(text.bytes.substr(i, n), piece);
    while (mark != text.marks.end() && mark->end <= i) ++mark;
    out.append(piece, mark != text.marks.end() && mark->begin <= i);
    i += n;
  }
  return heap.text(std::move(out), text.safe);
}

Value escape_html(Heap& heap, const Str& text) {
  if (text.safe) return Value::of(&text);
  const Value escaped = map_chars(heap, text, [](std::string_view c, std::string& out) {
    switch (c[0]) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += c;
    }
  });
  TextBuilder copy;
  copy.append(*escaped.str);
  return heap.text(std::move(copy), true);
}

}  // namespace quern::jinja
