// str(), repr() and json.dumps of template values, digit for digit as Python prints them.
#include "text/jinja_print.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/utf8.h"
#include "text/jinja_builtins.h"
#include "text/jinja_ops.h"
#include "text/jinja_text.h"

namespace quern::jinja {

std::string float_repr(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, number, std::chars_format::scientific);
  std::string_view text(buffer, size_t(result.ptr - buffer));
  std::string out;
  if (text[0] == '-') {
    out = "-";
    text.remove_prefix(1);
  }
  const size_t e = text.find('e');
  int exponent = 0;
  std::from_chars(text.data() + e + (text[e + 1] == '+' ? 2 : 1), text.data() + text.size(), exponent);
  std::string digits(1, text[0]);
  if (e > 1) digits += text.substr(2, e - 2);
  if (exponent < -4 || exponent >= 16) {
    out += digits[0];
    if (digits.size() > 1) out += "." + digits.substr(1);
    return out + fmt::format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0) return out + "0." + std::string(size_t(-exponent - 1), '0') + digits;
  if (digits.size() <= size_t(exponent) + 1)
    return out + digits + std::string(size_t(exponent) + 1 - digits.size(), '0') + ".0";
  return out + digits.substr(0, size_t(exponent) + 1) + "." + digits.substr(size_t(exponent) + 1);
}

namespace {

/// Python's str.isprintable, near enough: controls, format characters, separators and private use are not.
bool printable(uint32_t p) {
  if (p < 0x20 || (p >= 0x7F && p <= 0xA0) || p == 0xAD) return false;
  if (p == 0x1680 || (p >= 0x2000 && p <= 0x200F) || (p >= 0x2028 && p <= 0x202F) || (p >= 0x205F && p <= 0x206F) ||
      p == 0x3000)
    return false;
  if ((p >= 0xE000 && p <= 0xF8FF) || p == 0xFEFF || (p >= 0xFFF0 && p <= 0xFFFB) || (p & 0xFFFE) == 0xFFFE)
    return false;
  return p < 0xE0000;
}

void append_escape(std::string& out, uint32_t p) {
  if (p <= 0xFF) {
    out += fmt::format("\\x{:02x}", p);
  } else if (p <= 0xFFFF) {
    out += fmt::format("\\u{:04x}", p);
  } else {
    out += fmt::format("\\U{:08x}", p);
  }
}

void append_str_repr(Heap& heap, TextBuilder& out, const Str& text) {
  heap.tick_bytes(text.bytes.size() * 4);
  const std::string_view bytes = text.bytes;
  const char quote = bytes.find('\'') != bytes.npos && bytes.find('"') == bytes.npos ? '"' : '\'';
  std::string repr(1, quote);
  for (size_t i = 0; i < bytes.size();) {
    const Utf8Char c = utf8_decode(bytes, i);
    if (bytes[i] == quote || bytes[i] == '\\') {
      repr += '\\';
      repr += bytes[i];
    } else if (bytes[i] == '\n' || bytes[i] == '\r' || bytes[i] == '\t') {
      repr += bytes[i] == '\n' ? "\\n" : bytes[i] == '\r' ? "\\r" : "\\t";
    } else if (!c.valid || printable(c.code_point)) {
      repr += bytes.substr(i, c.n_bytes);
    } else {
      append_escape(repr, c.code_point);
    }
    i += c.n_bytes;
  }
  repr += quote;
  if (text.safe) repr = "Markup(" + repr + ")";
  out.append(repr, !text.marks.empty());
}

void append_seq_repr(Heap& heap, TextBuilder& out, const Seq& seq, int depth) {
  if (seq.kind == SeqKind::Generator) {
    out.append("<generator object>", false);
    return;
  }
  const bool tuple = seq.kind == SeqKind::Tuple;
  if (seq.kind == SeqKind::View) out.append(fmt::format("{}(", seq.type_name), false);
  if (seq.kind == SeqKind::Range) {
    const int64_t first = seq.items.empty() ? 0 : seq.items.front().integer;
    out.append(fmt::format("range({}, {})", first, first + int64_t(seq.items.size())), false);
    return;
  }
  out.append(tuple ? "(" : "[", false);
  for (size_t i = 0; i < seq.items.size(); ++i) {
    if (i) out.append(", ", false);
    append_repr(heap, out, seq.items[i], depth + 1);
  }
  if (tuple && seq.items.size() == 1) out.append(",", false);
  out.append(tuple ? ")" : "]", false);
  if (seq.kind == SeqKind::View) out.append(")", false);
}

void append_dict_repr(Heap& heap, TextBuilder& out, const Dict& dict, int depth) {
  out.append("{", false);
  bool first = true;
  for (const auto& [key, value] : dict.items()) {
    if (!first) out.append(", ", false);
    first = false;
    append_repr(heap, out, key, depth + 1);
    out.append(": ", false);
    append_repr(heap, out, value, depth + 1);
  }
  out.append("}", false);
}

class JsonWriter {
 public:
  JsonWriter(Heap& heap, const JsonStyle& style) : heap_(heap), style_(style) {}

  void write(const Value& value, int depth) {
    check_nesting(depth);
    heap_.tick();
    heap_.check_text(out.bytes.size());
    switch (value.kind) {
      case Kind::None:
        out.append("null", false);
        return;
      case Kind::Bool:
        out.append(value.boolean ? "true" : "false", false);
        return;
      case Kind::Int:
        out.append(fmt::format("{}", value.integer), false);
        return;
      case Kind::Float:
        out.append(number(value.number), false);
        return;
      case Kind::Str:
        string(*value.str);
        return;
      case Kind::Dict:
        object(*value.dict, depth);
        return;
      case Kind::Seq:
        if (value.seq->kind == SeqKind::List || value.seq->kind == SeqKind::Tuple) {
          array(*value.seq, depth);
          return;
        }
        [[fallthrough]];
      default:
        fail("Object of type {} is not JSON serializable", type_name(value));
    }
  }

  TextBuilder out;

 private:
  static std::string number(double n) {
    if (std::isnan(n)) return "NaN";
    if (std::isinf(n)) return n < 0 ? "-Infinity" : "Infinity";
    return float_repr(n);
  }

  void string(const Str& text) {
    heap_.tick_bytes(text.bytes.size() * 4);
    std::string json = "\"";
    for (size_t i = 0; i < text.bytes.size();) {
      const Utf8Char c = utf8_decode(text.bytes, i);
      const std::string_view bytes = text.bytes.substr(i, c.n_bytes);
      i += c.n_bytes;
      switch (c.code_point) {
        case '"':
          json += "\\\"";
          continue;
        case '\\':
          json += "\\\\";
          continue;
        case '\n':
          json += "\\n";
          continue;
        case '\r':
          json += "\\r";
          continue;
        case '\t':
          json += "\\t";
          continue;
        case '\b':
          json += "\\b";
          continue;
        case '\f':
          json += "\\f";
          continue;
        default:
          break;
      }
      if (c.code_point < 0x20 || (style_.ensure_ascii && c.code_point > 0x7E && c.code_point <= 0xFFFF)) {
        json += fmt::format("\\u{:04x}", c.code_point);
      } else if (style_.ensure_ascii && c.code_point > 0xFFFF) {
        const uint32_t v = c.code_point - 0x10000;
        json += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (v >> 10), 0xDC00 + (v & 0x3FF));
      } else {
        json += bytes;
      }
    }
    json += '"';
    out.append(json, !text.marks.empty());
  }

  void newline(int depth) {
    if (!style_.indented) return;
    heap_.check_text(out.bytes.size() + style_.indent.size() * size_t(depth));
    heap_.tick_bytes(style_.indent.size() * size_t(depth));
    std::string line = "\n";
    for (int i = 0; i < depth; ++i) line += style_.indent;
    out.append(line, false);
  }

  void array(const Seq& seq, int depth) {
    out.append("[", false);
    for (size_t i = 0; i < seq.items.size(); ++i) {
      if (i) out.append(style_.item_separator, false);
      newline(depth + 1);
      write(seq.items[i], depth + 1);
    }
    if (!seq.items.empty()) newline(depth);
    out.append("]", false);
  }

  const Str* key(const Value& value) {
    switch (value.kind) {
      case Kind::Str:
        return value.str;
      case Kind::None:
        return heap_.view("null").str;
      case Kind::Bool:
        return heap_.view(value.boolean ? "true" : "false").str;
      case Kind::Int:
        return heap_.text(fmt::format("{}", value.integer)).str;
      case Kind::Float:
        return heap_.text(number(value.number)).str;
      default:
        fail("keys must be str, int, float, bool or None, not {}", type_name(value));
    }
  }

  void object(const Dict& dict, int depth) {
    std::vector<std::pair<Value, Value>> items = dict.items();
    if (style_.sort_keys) {
      std::stable_sort(items.begin(), items.end(),
                       [&](const auto& a, const auto& b) { return compare(heap_, a.first, b.first) < 0; });
    }
    out.append("{", false);
    for (size_t i = 0; i < items.size(); ++i) {
      if (i) out.append(style_.item_separator, false);
      newline(depth + 1);
      string(*key(items[i].first));
      out.append(style_.key_separator, false);
      write(items[i].second, depth + 1);
    }
    if (!items.empty()) newline(depth);
    out.append("}", false);
  }

  Heap& heap_;
  const JsonStyle& style_;
};

}  // namespace

void append_repr(Heap& heap, TextBuilder& out, const Value& value, int depth) {
  check_nesting(depth);
  heap.tick();
  heap.check_text(out.bytes.size());
  switch (value.kind) {
    case Kind::Str:
      append_str_repr(heap, out, *value.str);
      return;
    case Kind::Seq:
      append_seq_repr(heap, out, *value.seq, depth);
      return;
    case Kind::Dict:
      append_dict_repr(heap, out, *value.dict, depth);
      return;
    case Kind::Namespace:
      out.append("<Namespace ", false);
      append_dict_repr(heap, out, *value.dict, depth);
      out.append(">", false);
      return;
    case Kind::Undefined:
      out.append("Undefined", false);
      return;
    case Kind::Macro:
      out.append(fmt::format("<Macro '{}'>", macro_name(*value.macro)), false);
      return;
    case Kind::Missing:
    case Kind::None:
      out.append("None", false);
      return;
    case Kind::Bool:
      out.append(value.boolean ? "True" : "False", false);
      return;
    case Kind::Int:
      out.append(fmt::format("{}", value.integer), false);
      return;
    case Kind::Float:
      out.append(float_repr(value.number), false);
      return;
    default:
      out.append(fmt::format("<{}>", type_name(value)), false);
      return;
  }
}

void append_str(Heap& heap, TextBuilder& out, const Value& value) {
  if (value.is(Kind::Undefined)) return;
  if (!value.is(Kind::Str)) {
    const size_t begin = out.bytes.size(), n_marks = out.marks.size();
    append_repr(heap, out, value);
    if (out.marks.size() > n_marks) {  // quoting mixes input and punctuation: all of it counts as input
      out.marks.resize(n_marks);
      const std::string repr = out.bytes.substr(begin);
      out.bytes.resize(begin);
      out.append(repr, true);
    }
    return;
  }
  heap.check_text(out.bytes.size() + value.text().size());
  heap.tick_bytes(value.text().size());
  out.append(*value.str);
}

const Str* to_str(Heap& heap, const Value& value) {
  if (value.is(Kind::Str)) return value.str;
  if (value.is(Kind::Undefined)) return heap.view("").str;
  TextBuilder out;
  append_str(heap, out, value);
  return heap.text(std::move(out)).str;
}

Value to_json(Heap& heap, const Value& value, const JsonStyle& style) {
  JsonWriter writer(heap, style);
  writer.write(value, 0);
  writer.out.spread_marks();
  return heap.text(std::move(writer.out));
}

}  // namespace quern::jinja
