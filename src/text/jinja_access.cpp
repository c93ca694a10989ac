// Attributes, items, slices, lengths and iteration of template values.
#include <algorithm>
#include <charconv>

#include "text/jinja_builtins.h"
#include "text/jinja_ops.h"
#include "text/jinja_text.h"

namespace quern::jinja {

namespace {

Value missing_attribute(Heap& heap, const Value& value, const Value& key) {
  const Str* name = key.is(Kind::Str) ? key.str : nullptr;
  if (key.is(Kind::Int)) name = heap.text(fmt::format("{}", key.integer)).str;
  Value undefined = Value::undefined(name);
  undefined.owner = value.kind;
  if (value.is(Kind::Seq)) undefined.owner_seq = value.seq->kind;
  return undefined;
}

std::optional<Value> loop_attribute(Heap& heap, const Loop& loop, std::string_view name) {
  const int64_t index0 = int64_t(loop.index0), n = int64_t(loop.n_items);
  const auto neighbour = [&](int64_t i, const char* which) {
    if (i >= 0 && i < n && i < int64_t(loop.items->items.size())) return loop.items->items[size_t(i)];
    return Value::undefined(heap.view(which).str);
  };
  if (name == "index") return Value::of(index0 + 1);
  if (name == "index0") return Value::of(index0);
  if (name == "revindex") return Value::of(n - index0);
  if (name == "revindex0") return Value::of(n - index0 - 1);
  if (name == "first") return Value::of(index0 == 0);
  if (name == "last") return Value::of(index0 + 1 == n);
  if (name == "length") return Value::of(n);
  if (name == "depth") return Value::of(int64_t{1});  // of recursive loops, which there are none of
  if (name == "depth0") return Value::of(int64_t{0});
  if (name == "previtem") return neighbour(index0 - 1, "there is no previous item");
  if (name == "nextitem") return neighbour(index0 + 1, "there is no next item");
  return std::nullopt;
}

/// What the key finds among the value's elements, or nullptr/nullopt.
std::optional<Value> element(Heap& heap, const Value& value, const Value& key) {
  if (value.is(Kind::Dict)) {
    const Value* found = value.dict->find(key);
    return found ? std::optional(*found) : std::nullopt;
  }
  if (!key.is_integer()) return std::nullopt;
  int64_t i = key.as_integer();
  if (value.is(Kind::Str)) {
    const int64_t n = char_count(heap, *value.str);
    if (i < 0) i += n;
    if (i < 0 || i >= n) return std::nullopt;
    const size_t begin = char_offset(heap, *value.str, i);
    return heap.slice(*value.str, begin, begin + char_length(value.text(), begin));
  }
  if (value.is(Kind::Seq) && value.seq->kind <= SeqKind::Range) {
    if (i < 0) i += int64_t(value.seq->items.size());
    if (i < 0 || i >= int64_t(value.seq->items.size())) return std::nullopt;
    return value.seq->items[size_t(i)];
  }
  return std::nullopt;
}

/// What the name finds among the value's methods and fields.
std::optional<Value> member(Heap& heap, const Value& value, const Str& name) {
  if (value.is(Kind::Namespace)) {
    const Value* found = value.dict->find(Value::of(&name));
    return found ? std::optional(*found) : std::nullopt;
  }
  if (value.is(Kind::Loop)) {
    if (auto found = loop_attribute(heap, *value.loop, name.bytes)) return found;
  }
  if (value.is(Kind::Macro) && name.bytes == "name") return heap.view(macro_name(*value.macro));
  const Builtin* method = find_method(value, name.bytes);
  return method ? std::optional(heap.method(value, method)) : std::nullopt;
}

std::optional<int64_t> bound(const Value& value) {
  if (value.is(Kind::Missing) || value.is(Kind::None)) return std::nullopt;
  if (value.is(Kind::Undefined)) fail_undefined(value);
  if (!value.is_integer()) fail("slice indices must be integers or None, not {}", type_name(value));
  return value.as_integer();
}

struct SliceRange {
  int64_t start, stop, step;
};

/// Python's slice.indices().
SliceRange slice_range(const Value& start, const Value& stop, const Value& step, int64_t n) {
  SliceRange r{};
  r.step = bound(step).value_or(1);
  if (r.step == 0) fail("slice step cannot be zero");
  const bool down = r.step < 0;
  const int64_t low = down ? -1 : 0, high = down ? n - 1 : n;
  const auto place = [&](std::optional<int64_t> at, int64_t fallback) {
    if (!at) return fallback;
    return *at < 0 ? std::max(low, *at + n) : std::min(high, *at);
  };
  r.start = place(bound(start), down ? high : low);
  r.stop = place(bound(stop), down ? low : high);
  return r;
}

template <typename Take>
void walk(Heap& heap, const SliceRange& r, Take&& take) {
  for (int64_t i = r.start; r.step > 0 ? i < r.stop : i > r.stop;) {
    heap.tick();
    take(size_t(i));
    if (__builtin_add_overflow(i, r.step, &i)) return;
  }
}

}  // namespace

Value get_attribute(Heap& heap, const Value& value, const Str& name) {
  heap.tick();
  if (value.is(Kind::Undefined)) fail_undefined(value);
  if (auto found = member(heap, value, name)) return *found;
  const Value key = Value::of(&name);
  if (auto found = element(heap, value, key)) return *found;
  return missing_attribute(heap, value, key);
}

Value get_item(Heap& heap, const Value& value, const Value& key) {
  heap.tick();
  if (value.is(Kind::Undefined)) fail_undefined(value);
  if (value.is(Kind::Dict) && (key.is_list() || key.is(Kind::Dict))) return missing_attribute(heap, value, key);
  if (auto found = element(heap, value, key)) return *found;
  if (key.is(Kind::Str)) {
    if (auto found = member(heap, value, *key.str)) return *found;
  }
  return missing_attribute(heap, value, key);
}

Value get_slice(Heap& heap, const Value& value, const Value& start, const Value& stop, const Value& step) {
  if (value.is(Kind::Undefined)) fail_undefined(value);
  if (value.is(Kind::Str)) {
    const Str& text = *value.str;
    const SliceRange r = slice_range(start, stop, step, char_count(heap, text));
    if (r.step == 1) {
      const size_t begin = char_offset(heap, text, std::min(r.start, text.n_chars));
      return heap.slice(text, begin, r.stop <= r.start ? begin : char_offset(heap, text, r.stop));
    }
    const std::vector<Value> chars = characters(heap, text);
    TextBuilder out;
    walk(heap, r, [&](size_t i) { out.append(*chars[i].str); });
    return heap.text(std::move(out), text.safe);
  }
  if (value.is(Kind::Seq) && value.seq->kind <= SeqKind::Range) {
    const SliceRange r = slice_range(start, stop, step, int64_t(value.seq->items.size()));
    std::vector<Value> items;
    walk(heap, r, [&](size_t i) { items.push_back(value.seq->items[i]); });
    return heap.seq(value.seq->kind, value.seq->type_name, std::move(items));
  }
  return missing_attribute(heap, value, Value::none());
}

bool is_iterable(const Value& value) {
  switch (value.kind) {
    case Kind::Str:
    case Kind::Seq:
    case Kind::Dict:
    case Kind::Loop:
    case Kind::Undefined:
      return true;
    default:
      return false;
  }
}

Seq* iterate(Heap& heap, const Value& value) {
  switch (value.kind) {
    case Kind::Seq:
      if (value.seq->kind == SeqKind::Generator) {
        if (value.seq->consumed) return heap.list({}).seq;
        value.seq->consumed = true;
      }
      return value.seq;
    case Kind::Str:
      return heap.list(characters(heap, *value.str)).seq;
    case Kind::Loop:
      return value.loop->items;
    case Kind::Undefined:
      return heap.list({}).seq;
    case Kind::Dict: {
      std::vector<Value> keys;
      for (const auto& [key, item] : value.dict->items()) keys.push_back(key);
      return heap.list(std::move(keys)).seq;
    }
    default:
      fail("'{}' object is not iterable", type_name(value));
  }
}

std::optional<int64_t> length(Heap& heap, const Value& value) {
  switch (value.kind) {
    case Kind::Str:
      return char_count(heap, *value.str);
    case Kind::Seq:
      if (value.seq->kind == SeqKind::Generator) return std::nullopt;
      return int64_t(value.seq->items.size());
    case Kind::Dict:
      return int64_t(value.dict->size());
    case Kind::Loop:
      return int64_t(value.loop->n_items);
    case Kind::Undefined:
      return 0;
    default:
      return std::nullopt;
  }
}

Value attribute_path(Heap& heap, const Value& value, const Value& path, const Value& fallback) {
  const auto found = [&](const Value& item) {
    return item.is(Kind::Undefined) && !fallback.is(Kind::Missing) ? fallback : item;
  };
  if (path.is_integer()) return found(get_item(heap, value, path));
  if (!path.is(Kind::Str)) fail("an attribute is given by its name or number, not by a {}", type_name(path));
  Value current = value;
  size_t begin = 0;
  while (true) {
    const size_t dot = std::min(path.text().find('.', begin), path.text().size());
    const std::string_view part = path.text().substr(begin, dot - begin);
    int64_t number = 0;
    const auto parsed = std::from_chars(part.data(), part.data() + part.size(), number);
    const bool numeric =
        !part.empty() && parsed.ec == std::errc() && parsed.ptr == part.data() + part.size() && part[0] != '-';
    current = found(get_item(heap, current, numeric ? Value::of(number) : heap.slice(*path.str, begin, dot)));
    if (dot == path.text().size()) return current;
    begin = dot + 1;
  }
}

}  // namespace quern::jinja
