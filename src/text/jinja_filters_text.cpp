// Filters that make text.
#include <algorithm>
#include <cctype>

#include "text/jinja_builtins.h"
#include "text/jinja_ops.h"
#include "text/jinja_print.h"
#include "text/jinja_text.h"

namespace quern::jinja {

namespace {

const Str* optional_text(Heap& heap, const Value& value) {
  return value.is(Kind::Missing) || value.is(Kind::None) ? nullptr : to_str(heap, value);
}

template <Case how>
Value with_case(Heap& heap, const Value& self, const Bound&) {
  return change_case(heap, *to_str(heap, self), how);
}

Value trim(Heap& heap, const Value& self, const Bound& args) {
  return strip(heap, *to_str(heap, self), kBoth, optional_text(heap, args[0]));
}

Value string(Heap& heap, const Value& self, const Bound&) {
  return Value::of(to_str(heap, self));
}

Value safe(Heap& heap, const Value& self, const Bound&) {
  TextBuilder out;
  append_str(heap, out, self);
  return heap.text(std::move(out), true);
}

Value escape(Heap& heap, const Value& self, const Bound&) {
  return escape_html(heap, *to_str(heap, self));
}

Value forceescape(Heap& heap, const Value& self, const Bound&) {
  Str plain = *to_str(heap, self);
  plain.safe = false;
  return escape_html(heap, plain);
}

Value replace_filter(Heap& heap, const Value& self, const Bound& args) {
  Str plain = *to_str(heap, self);
  plain.safe = false;
  const Value result = replace(heap, plain, *to_str(heap, args[0]), *to_str(heap, args[1]),
                               integer_or(args[2], "the count of replace()", -1));
  return result.str == &plain ? heap.slice(*to_str(heap, self), 0, plain.bytes.size()) : result;
}

Value indent(Heap& heap, const Value& self, const Bound& args) {
  const Str* width = args[0].is(Kind::Str)
                         ? args[0].str
                         : repeat(heap, *heap.view(" ").str, integer_or(args[0], "the width of indent()", 4)).str;
  const bool first = flag_or(args[1], false), blank = flag_or(args[2], false);
  TextBuilder out, closed;
  append_str(heap, closed, self);
  closed.append("\n", false);  // so that a text that ends in a new line has an empty last line
  const std::vector<Value> lines = splitlines(heap, *heap.text(std::move(closed)).str, false);
  for (size_t i = 0; i < lines.size(); ++i) {
    heap.check_text(out.bytes.size() + width->bytes.size() + lines[i].text().size());
    heap.tick_bytes(width->bytes.size() + lines[i].text().size());
    if (i) out.append("\n", false);
    if (i == 0 ? first : blank || !lines[i].text().empty()) out.append(*width);
    out.append(*lines[i].str);
  }
  return heap.text(std::move(out));
}

Value truncate(Heap& heap, const Value& self, const Bound& args) {
  const Str& text = *to_str(heap, self);
  const int64_t length = integer_or(args[0], "the length of truncate()", 255),
                leeway = integer_or(args[3], "the leeway of truncate()", 5);
  const Str& end = args[2].is(Kind::Missing) ? *heap.view("...").str : to_text(args[2], "the end of truncate()");
  const int64_t n_end = char_count(heap, end);
  if (length < n_end) fail("truncate() needs a length of at least {}, found {}", n_end, length);
  if (leeway < 0) fail("truncate() needs a leeway of at least 0, found {}", leeway);
  if (char_count(heap, text) <= length + leeway) return Value::of(&text);
  Value kept = heap.slice(text, 0, char_offset(heap, text, length - n_end));
  if (!flag_or(args[1], false)) {
    const size_t space = kept.text().rfind(' ');
    if (space != std::string_view::npos) kept = heap.slice(*kept.str, 0, space);
  }
  const Value parts[] = {kept, Value::of(&end)};
  return concat(heap, parts, 2);
}

Value center(Heap& heap, const Value& self, const Bound& args) {
  const Value text = Value::of(to_str(heap, self));
  return call_builtin(heap, *find_method(text, "center"), text,
                      {{args[0].is(Kind::Missing) ? Value::of(int64_t{80}) : args[0]}, {}});
}

Value wordcount(Heap& heap, const Value& self, const Bound&) {
  const std::string_view text = to_str(heap, self)->bytes;
  heap.tick_bytes(text.size());
  int64_t n_words = 0;
  bool inside = false;
  for (const char c : text) {
    const bool word = std::isalnum(static_cast<unsigned char>(c)) || c == '_' || static_cast<unsigned char>(c) >= 0x80;
    n_words += word && !inside;
    inside = word;
  }
  return Value::of(n_words);
}

Value urlencode(Heap& heap, const Value& self, const Bound&) {
  return map_chars(heap, *to_str(heap, self), [](std::string_view c, std::string& out) {
    if (c.size() == 1 &&
        (std::isalnum(static_cast<unsigned char>(c[0])) || std::string_view("_.-~/").find(c[0]) != c.npos)) {
      out += c;
    } else {
      for (const char byte : c) out += fmt::format("%{:02X}", static_cast<unsigned char>(byte));
    }
  });
}

Value format_filter(Heap& heap, const Value& self, const Args& args) {
  Value arguments = heap.tuple(args.positional);
  if (!args.named.empty()) {
    if (!args.positional.empty()) fail("format() takes positional or keyword arguments, not both");
    arguments = heap.dict();
    for (const auto& [name, value] : args.named) arguments.dict->set(Value::of(name), value);
  }
  return format_percent(heap, *to_str(heap, self), arguments);
}

Value tojson(Heap& heap, const Value& self, const Bound& args) {
  JsonStyle style;
  style.ensure_ascii = flag_or(args[0], false);
  if (args[1].is(Kind::Str)) {
    style.indented = true;
    style.indent = args[1].text();
  } else if (!args[1].is(Kind::Missing) && !args[1].is(Kind::None)) {
    style.indented = true;
    style.indent = repeat(heap, *heap.view(" ").str, to_integer(args[1], "the indent of tojson()")).text();
  }
  if (style.indented) style.item_separator = ",";
  if (!args[2].is(Kind::Missing) && !args[2].is(Kind::None)) {
    const Seq& separators = *iterate(heap, args[2]);
    if (separators.items.size() != 2) fail("the separators of tojson() are a pair, found {}", separators.items.size());
    style.item_separator = to_text(separators.items[0], "a separator of tojson()").bytes;
    style.key_separator = to_text(separators.items[1], "a separator of tojson()").bytes;
  }
  style.sort_keys = flag_or(args[3], false);
  return to_json(heap, self, style);
}

constexpr Builtin kFilters[] = {
    {"upper", with_case<Case::Upper>},
    {"lower", with_case<Case::Lower>},
    {"capitalize", with_case<Case::Capitalize>},
    {"title", with_case<Case::TitleFilter>},
    {"trim", trim, {"chars"}},
    {"string", string},
    {"safe", safe},
    {"escape", escape},
    {"e", escape},
    {"forceescape", forceescape},
    {"replace", replace_filter, {"old", "new", "count"}, 2},
    {"indent", indent, {"width", "first", "blank"}},
    {"truncate", truncate, {"length", "killwords", "end", "leeway"}},
    {"center", center, {"width"}},
    {"wordcount", wordcount},
    {"urlencode", urlencode},
    {"format", nullptr, {}, 0, format_filter},
    {"tojson", tojson, {"ensure_ascii", "indent", "separators", "sort_keys"}},
};

}  // namespace

std::span<const Builtin> text_filters() {
  return kFilters;
}

}  // namespace quern::jinja
