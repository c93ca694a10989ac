// "%s" % value and "{}".format(value), with Python's format specifications; texts keep their marks.
#include <algorithm>
#include <cmath>
#include <optional>

#include "text/jinja_builtins.h"
#include "text/jinja_ops.h"
#include "text/jinja_print.h"
#include "text/jinja_text.h"

namespace quern::jinja {

namespace {

/// [[fill]align][sign][#][0][width][,][.precision][type]; '%' formats use the same fields.
struct Spec {
  std::string fill = " ";
  char align = 0;  ///< < > ^ = or 0 for the type's own
  char sign = '-';
  bool alternate = false;
  char group = 0;
  int64_t width = 0;
  int64_t precision = -1;
  char type = 0;
};

constexpr int64_t kMaxWidth = 100'000;

int64_t read_number(std::string_view text, size_t& at, std::string_view what) {
  int64_t value = 0;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
    value = value * 10 + (text[at] - '0');
    if (value > kMaxWidth) fail("the {} of a format is at most {}", what, kMaxWidth);
  }
  return value;
}

std::string grouped(std::string digits, char separator, size_t every) {
  if (separator == 0) return digits;
  const size_t end = std::min(digits.find_first_not_of("0123456789abcdefABCDEF"), digits.size());
  for (size_t i = end; i > every; i -= every) digits.insert(i - every, 1, separator);
  return digits;
}

std::string integer_digits(uint64_t magnitude, const Spec& spec) {
  switch (spec.type) {
    case 'x':
      return (spec.alternate ? "0x" : "") + grouped(fmt::format("{:x}", magnitude), spec.group, 4);
    case 'X':
      return (spec.alternate ? "0X" : "") + grouped(fmt::format("{:X}", magnitude), spec.group, 4);
    case 'o':
      return (spec.alternate ? "0o" : "") + grouped(fmt::format("{:o}", magnitude), spec.group, 4);
    case 'b':
      return (spec.alternate ? "0b" : "") + grouped(fmt::format("{:b}", magnitude), spec.group, 4);
    default:
      return grouped(fmt::format("{}", magnitude), spec.group, 3);
  }
}

/// Python's 'g' without a type keeps ".0" and switches to exponents later; both come from repr when no precision is
/// given.
std::string float_digits(double magnitude, const Spec& spec) {
  if (!std::isfinite(magnitude)) return std::isnan(magnitude) ? "nan" : "inf";
  const int precision = int(spec.precision < 0 ? 6 : spec.precision);
  switch (spec.type) {
    case 'f':
    case 'F':
      return grouped(fmt::format("{:.{}f}", magnitude, precision), spec.group, 3);
    case 'e':
      return fmt::format("{:.{}e}", magnitude, precision);
    case 'E':
      return fmt::format("{:.{}E}", magnitude, precision);
    case 'g':
      return grouped(fmt::format("{:.{}g}", magnitude, std::max(precision, 1)), spec.group, 3);
    case 'G':
      return fmt::format("{:.{}G}", magnitude, std::max(precision, 1));
    case '%':
      return grouped(fmt::format("{:.{}f}", magnitude * 100, precision), spec.group, 3) + "%";
    default:
      return grouped(
          spec.precision < 0 ? float_repr(magnitude) : fmt::format("{:.{}g}", magnitude, std::max(precision, 1)),
          spec.group, 3);
  }
}

void append_padded(Heap& heap, TextBuilder& out, const Str& text, const Spec& spec, char default_align) {
  const int64_t missing = std::max<int64_t>(0, spec.width - char_count(heap, text));
  const char align = spec.align ? spec.align : default_align;
  const int64_t left = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  heap.check_text(out.bytes.size() + text.bytes.size() + size_t(missing) * spec.fill.size());
  heap.tick_bytes(text.bytes.size() + size_t(missing) * spec.fill.size());
  for (int64_t i = 0; i < left; ++i) out.append(spec.fill, false);
  out.append(text);
  for (int64_t i = left; i < missing; ++i) out.append(spec.fill, false);
}

void append_number(Heap& heap, TextBuilder& out, const Value& value, const Spec& spec) {
  const bool as_float = value.is(Kind::Float) ||
                        (spec.type != 0 && std::string_view("fFeEgG%").find(spec.type) != std::string_view::npos);
  const bool negative = value.is(Kind::Float) ? std::signbit(value.number) : value.as_integer() < 0;
  std::string digits;
  if (as_float) {
    digits = float_digits(std::fabs(value.as_double()), spec);
  } else {
    const uint64_t magnitude = negative ? 0 - uint64_t(value.as_integer()) : uint64_t(value.as_integer());
    digits = integer_digits(magnitude, spec);
  }
  const std::string sign = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  if (spec.align == '=') {
    const int64_t missing = std::max<int64_t>(0, spec.width - int64_t(digits.size() + sign.size()));
    const size_t prefix = spec.alternate && !as_float && spec.type != 'd' && spec.type != 0 ? 2 : 0;
    std::string zeros;
    for (int64_t i = 0; i < missing; ++i) zeros += spec.fill;
    digits.insert(prefix, zeros);
  }
  const std::string text = sign + digits;
  append_padded(heap, out, Str{text, {}, false, -1}, spec, '>');
}

void append_text(Heap& heap, TextBuilder& out, const Str& text, const Spec& spec) {
  const Str* shown = &text;
  if (spec.precision >= 0 && spec.precision < char_count(heap, text))
    shown = heap.slice(text, 0, char_offset(heap, text, spec.precision)).str;
  append_padded(heap, out, *shown, spec, '<');
}

Spec parse_spec(std::string_view text) {
  Spec spec;
  size_t i = 0;
  const auto is_align = [&](size_t at) {
    return at < text.size() && std::string_view("<>^=").find(text[at]) != text.npos;
  };
  const size_t first = text.empty() ? 0 : char_length(text, 0);
  if (first && is_align(first)) {
    spec.fill = text.substr(0, first);
    spec.align = text[first];
    i = first + 1;
  } else if (is_align(0)) {
    spec.align = text[i++];
  }
  if (i < text.size() && (text[i] == '+' || text[i] == '-' || text[i] == ' ')) spec.sign = text[i++];
  if (i < text.size() && text[i] == '#') spec.alternate = true, ++i;
  if (i < text.size() && text[i] == '0') {
    if (!spec.align) {
      spec.fill = "0";
      spec.align = '=';
    }
    ++i;
  }
  spec.width = read_number(text, i, "width");
  if (i < text.size() && (text[i] == ',' || text[i] == '_')) spec.group = text[i++];
  if (i < text.size() && text[i] == '.') spec.precision = std::min<int64_t>(read_number(text, ++i, "precision"), 1000);
  if (i < text.size()) spec.type = text[i++];
  if (i < text.size()) fail("the format '{}' is not known", text);
  return spec;
}

void append_formatted(Heap& heap, TextBuilder& out, const Value& value, std::string_view spec_text) {
  if (spec_text.empty()) {
    append_str(heap, out, value);
    return;
  }
  Spec spec = parse_spec(spec_text);
  const bool bool_as_text = value.is(Kind::Bool) && spec.type == 0;
  if (value.is_number() && !bool_as_text) {
    if (spec.type && std::string_view(value.is(Kind::Float) ? "fFeEgG%" : "dxXobfFeEgG%").find(spec.type) ==
                         std::string_view::npos) {
      fail("Unknown format code '{}' for object of type '{}'", spec.type, type_name(value));
    }
    append_number(heap, out, value, spec);
    return;
  }
  if (spec.type && spec.type != 's')
    fail("Unknown format code '{}' for object of type '{}'", spec.type, type_name(value));
  if (spec.align == '=') spec.align = '<';
  append_text(heap, out, *to_str(heap, value), spec);
}

class BraceFormatter {
 public:
  BraceFormatter(Heap& heap, const Str& format, const Args& args) : heap_(heap), format_(format), args_(args) {}

  Value run() {
    const std::string_view text = format_.bytes;
    size_t i = 0;
    while (i < text.size()) {
      const size_t brace = std::min(text.find_first_of("{}", i), text.size());
      out_.append(*heap_.slice(format_, i, brace).str);
      if (brace == text.size()) break;
      if (brace + 1 < text.size() && text[brace + 1] == text[brace]) {
        out_.append(*heap_.slice(format_, brace, brace + 1).str);
        i = brace + 2;
        continue;
      }
      if (text[brace] == '}') fail("Single '}}' encountered in format string");
      const size_t close = text.find('}', brace);
      if (close == text.npos) fail("Single '{{' encountered in format string");
      field(brace + 1, close);
      i = close + 1;
    }
    return heap_.text(std::move(out_), format_.safe);
  }

 private:
  void field(size_t begin, size_t end) {
    const std::string_view text = format_.bytes.substr(begin, end - begin);
    if (text.find('{') != text.npos) fail("a field inside a format specification is not supported");
    const size_t colon = std::min(text.find(':'), text.size());
    std::string_view name = text.substr(0, colon);
    const std::string_view spec = colon < text.size() ? text.substr(colon + 1) : std::string_view();
    char conversion = 0;
    if (const size_t bang = name.find('!'); bang != name.npos) {
      conversion = bang + 2 == name.size() ? name[bang + 1] : '?';
      name = name.substr(0, bang);
    }
    Value value = look_up(name, begin);
    if (conversion == 'r' || conversion == 'a') {
      TextBuilder repr;
      append_repr(heap_, repr, value);
      repr.spread_marks();
      value = heap_.text(std::move(repr));
    } else if (conversion == 's') {
      value = Value::of(to_str(heap_, value));
    } else if (conversion != 0) {
      fail("Unknown conversion specifier in the format field '{}'", text);
    }
    append_formatted(heap_, out_, value, spec);
  }

  Value look_up(std::string_view name, size_t begin) {
    const size_t end = std::min(name.find_first_of(".["), name.size());
    const std::string_view first = name.substr(0, end);
    Value value;
    if (first.empty() || std::all_of(first.begin(), first.end(), [](char c) { return c >= '0' && c <= '9'; })) {
      size_t at = 0;
      if ((first.empty() ? numbered_ : next_ > 0))
        fail("a format cannot switch between numbered and unnumbered fields");
      numbered_ = numbered_ || !first.empty();
      const size_t index = first.empty() ? next_++ : size_t(read_number(first, at, "position"));
      if (index >= args_.positional.size()) fail("Replacement index {} out of range for positional args tuple", index);
      value = args_.positional[index];
    } else {
      const Value* found = args_.find(first);
      if (!found) fail("format() got no argument '{}'", first);
      value = *found;
    }
    for (size_t i = end; i < name.size();) {
      const bool bracket = name[i] == '[';
      const size_t stop = bracket ? name.find(']', i) : std::min(name.find_first_of(".[", i + 1), name.size());
      if (stop == name.npos) fail("Missing ']' in format string");
      const Str& key = *heap_.slice(format_, begin + i + 1, begin + stop).str;
      const bool numeric = !key.bytes.empty() &&
                           std::all_of(key.bytes.begin(), key.bytes.end(), [](char c) { return c >= '0' && c <= '9'; });
      size_t at = 0;
      value = bracket
                  ? get_item(heap_, value, numeric ? Value::of(read_number(key.bytes, at, "index")) : Value::of(&key))
                  : get_attribute(heap_, value, key);
      i = bracket ? stop + 1 : stop;
    }
    return value;
  }

  Heap& heap_;
  const Str& format_;
  const Args& args_;
  TextBuilder out_;
  size_t next_ = 0;
  bool numbered_ = false;
};

class PercentFormatter {
 public:
  PercentFormatter(Heap& heap, const Str& format, const Value& args) : heap_(heap), format_(format), args_(args) {
    is_tuple_ = args.is(Kind::Seq) && args.seq->kind == SeqKind::Tuple;
  }

  Value run() {
    const std::string_view text = format_.bytes;
    size_t i = 0;
    while (i < text.size()) {
      const size_t percent = std::min(text.find('%', i), text.size());
      out_.append(*heap_.slice(format_, i, percent).str);
      if (percent == text.size()) break;
      i = field(percent + 1);
    }
    const size_t n = is_tuple_ ? args_.seq->items.size() : 1;
    if (!args_.is(Kind::Dict) && n_used_ < n) fail("not all arguments converted during string formatting");
    return heap_.text(std::move(out_), format_.safe);
  }

 private:
  Value next_argument() {
    if (is_tuple_ ? n_used_ >= args_.seq->items.size() : n_used_ > 0) fail("not enough arguments for format string");
    return is_tuple_ ? args_.seq->items[n_used_++] : (++n_used_, args_);
  }

  size_t field(size_t i) {
    const std::string_view text = format_.bytes;
    std::optional<Value> value;
    if (i < text.size() && text[i] == '(') {
      const size_t close = text.find(')', i);
      if (close == text.npos) fail("incomplete format key");
      if (!args_.is(Kind::Dict)) fail("format requires a mapping");
      const Value* found = args_.dict->find(text.substr(i + 1, close - i - 1));
      if (!found) fail("the format names the key '{}', which is not given", text.substr(i + 1, close - i - 1));
      value = *found;
      i = close + 1;
    }
    Spec spec;
    for (; i < text.size() && std::string_view("-+ #0").find(text[i]) != text.npos; ++i) {
      if (text[i] == '-') spec.align = '<';
      if (text[i] == '+' || (text[i] == ' ' && spec.sign == '-')) spec.sign = text[i];
      if (text[i] == '#') spec.alternate = true;
      if (text[i] == '0' && !spec.align) {
        spec.align = '=';
        spec.fill = "0";
      }
    }
    if (spec.align == '<') spec.fill = " ";
    spec.width = read_number(text, i, "width");
    if (i < text.size() && text[i] == '.')
      spec.precision = std::min<int64_t>(read_number(text, ++i, "precision"), 1000);
    if (i == text.size()) fail("incomplete format");
    if (text[i] == '%') {
      out_.append("%", false);
      return i + 1;
    }
    if (!value) value = next_argument();
    convert(text[i], *value, spec);
    return i + 1;
  }

  void convert(char type, const Value& value, Spec& spec) {
    switch (type) {
      case 's':
      case 'r':
      case 'a': {
        if (spec.align == '=') spec.align = 0, spec.fill = " ";
        if (!spec.align) spec.align = '>';
        TextBuilder text;
        if (type == 's') {
          append_str(heap_, text, value);
        } else {
          append_repr(heap_, text, value);
          text.spread_marks();
        }
        append_text(heap_, out_, *heap_.text(std::move(text)).str, spec);
        return;
      }
      case 'd':
      case 'i':
      case 'u':
      case 'x':
      case 'X':
      case 'o': {
        if (!value.is_number()) fail("%{} format: a real number is required, not {}", type, type_name(value));
        spec.type = type == 'i' || type == 'u' ? 'd' : type;
        const double whole = std::trunc(value.as_double());
        if (value.is(Kind::Float) && !(std::fabs(whole) < 9.2e18)) fail("the number does not fit in 64 bits");
        append_number(heap_, out_, value.is(Kind::Float) ? Value::of(int64_t(whole)) : value, spec);
        return;
      }
      case 'f':
      case 'F':
      case 'e':
      case 'E':
      case 'g':
      case 'G':
        if (!value.is_number()) fail("must be real number, not {}", type_name(value));
        spec.type = type;
        append_number(heap_, out_, value, spec);
        return;
      default:
        fail("unsupported format character '{}'", type);
    }
  }

  Heap& heap_;
  const Str& format_;
  const Value& args_;
  TextBuilder out_;
  bool is_tuple_ = false;
  size_t n_used_ = 0;
};

}  // namespace

Value format_percent(Heap& heap, const Str& format, const Value& args) {
  return PercentFormatter(heap, format, args).run();
}

Value format_braces(Heap& heap, const Str& format, const Args& args) {
  return BraceFormatter(heap, format, args).run();
}

}  // namespace quern::jinja
