// Methods of strings, lists, tuples, dicts and the loop object: what Python gives them, as far as templates call it.
#include <algorithm>

#include "base/utf8.h"
#include "text/jinja_builtins.h"
#include "text/jinja_ops.h"
#include "text/jinja_print.h"
#include "text/jinja_text.h"

namespace quern::jinja {

namespace {

const Str* optional_text(const Value& value, std::string_view what) {
  return value.is(Kind::Missing) || value.is(Kind::None) ? nullptr : &to_text(value, what);
}

template <Case how>
Value with_case(Heap& heap, const Value& self, const Bound&) {
  return change_case(heap, *self.str, how);
}

template <unsigned sides>
Value strip_method(Heap& heap, const Value& self, const Bound& args) {
  return strip(heap, *self.str, sides, optional_text(args[0], "the argument of strip()"));
}

template <bool from_right>
Value split_method(Heap& heap, const Value& self, const Bound& args) {
  const Str* separator = optional_text(args[0], "the separator of split()");
  return heap.list(split(heap, *self.str, separator, integer_or(args[1], "the limit of split()", -1), from_right));
}

Value splitlines_method(Heap& heap, const Value& self, const Bound& args) {
  return heap.list(splitlines(heap, *self.str, flag_or(args[0], false)));
}

template <bool from_right>
Value partition(Heap& heap, const Value& self, const Bound& args) {
  const Str& separator = to_text(args[0], "the separator of partition()");
  std::vector<Value> parts = split(heap, *self.str, &separator, 1, from_right);
  if (parts.size() == 2) {
    parts.insert(parts.begin() + 1, Value::of(&separator));
  } else {
    parts.insert(from_right ? parts.begin() : parts.end(), 2, heap.view(""));
  }
  return heap.tuple(std::move(parts));
}

Value replace_method(Heap& heap, const Value& self, const Bound& args) {
  return replace(heap, *self.str, to_text(args[0], "the first argument of replace()"),
                 to_text(args[1], "the second argument of replace()"),
                 integer_or(args[2], "the count of replace()", -1));
}

Value join_method(Heap& heap, const Value& self, const Bound& args) {
  std::vector<const Str*> parts;
  for (const Value& item : iterate(heap, args[0])->items) parts.push_back(&to_text(item, "an element given to join()"));
  return join(heap, *self.str, parts);
}

template <bool at_end>
Value affix(Heap& heap, const Value& self, const Bound& args) {
  const Value text = args[1].is(Kind::Missing) ? self : get_slice(heap, self, args[1], args[2], Value::none());
  const auto matches = [&](const Value& part) {
    const std::string_view wanted =
        to_text(part, at_end ? "the argument of endswith()" : "the argument of startswith()").bytes;
    heap.tick_bytes(wanted.size());
    return at_end ? text.text().ends_with(wanted) : text.text().starts_with(wanted);
  };
  if (!args[0].is(Kind::Seq) || args[0].seq->kind != SeqKind::Tuple) return Value::of(matches(args[0]));
  const auto& any = args[0].seq->items;
  return Value::of(std::any_of(any.begin(), any.end(), matches));
}

template <bool prefix>
Value remove_affix(Heap& heap, const Value& self, const Bound& args) {
  const std::string_view text = self.text(), part = to_text(args[0], "the argument of removeprefix()").bytes;
  if (prefix ? !text.starts_with(part) : !text.ends_with(part)) return self;
  return prefix ? heap.slice(*self.str, part.size(), text.size()) : heap.slice(*self.str, 0, text.size() - part.size());
}

/// find, rfind, index, rindex: in characters.
template <bool last, bool must_exist>
Value find_method_of_text(Heap& heap, const Value& self, const Bound& args) {
  const std::string_view wanted = to_text(args[0], "the argument of find()").bytes;
  const Value begin = args[1].is(Kind::Missing) ? Value::of(int64_t{0}) : args[1];
  const Value text = get_slice(heap, self, begin, args[2], Value::none());
  const auto at = last ? find_last(heap, text.text(), wanted) : find(heap, text.text(), wanted);
  if (!at) {
    if (must_exist) fail("substring not found");
    return Value::of(int64_t{-1});
  }
  int64_t offset = to_integer(begin, "the start of find()");
  if (offset < 0) offset = std::max<int64_t>(0, offset + char_count(heap, *self.str));
  return Value::of(offset + char_count(heap, *heap.slice(*text.str, 0, *at).str));
}

Value count_method(Heap& heap, const Value& self, const Bound& args) {
  const std::string_view wanted = to_text(args[0], "the argument of count()").bytes;
  if (wanted.empty()) return Value::of(char_count(heap, *self.str) + 1);
  int64_t n = 0;
  for (auto at = find(heap, self.text(), wanted); at; at = find(heap, self.text(), wanted, *at + wanted.size())) ++n;
  return Value::of(n);
}

enum class Class : uint8_t { Space, Digit, Letter, Alnum, Upper, Lower };

template <Class wanted>
Value is_class(Heap& heap, const Value& self, const Bound&) {
  const std::string_view text = self.text();
  heap.tick_bytes(text.size());
  bool cased = false;
  for (size_t i = 0; i < text.size();) {
    const Utf8Char c = utf8_decode(text, i);
    const uint32_t p = c.code_point;
    const bool digit = p >= '0' && p <= '9';
    const bool upper = to_lower(p) != p, lower = to_upper(p) != p;
    bool fits = true;
    switch (wanted) {
      case Class::Space:
        fits = space_length(text, i) != 0;
        break;
      case Class::Digit:
        fits = digit;
        break;
      case Class::Letter:
        fits = is_letter(p);
        break;
      case Class::Alnum:
        fits = digit || is_letter(p);
        break;
      case Class::Upper:
        fits = !lower;
        break;
      case Class::Lower:
        fits = !upper;
        break;
    }
    if (!fits) return Value::of(false);
    cased = cased || upper || lower;
    i += c.n_bytes;
  }
  return Value::of(!text.empty() && (cased || (wanted != Class::Upper && wanted != Class::Lower)));
}

/// ljust (left), rjust (right), center.
template <unsigned side>
Value justify(Heap& heap, const Value& self, const Bound& args) {
  const int64_t width = to_integer(args[0], "a width"), n = char_count(heap, *self.str);
  const Str& fill = args[1].is(Kind::Missing) ? *heap.view(" ").str : to_text(args[1], "the fill character");
  if (char_count(heap, fill) != 1) fail("The fill character must be exactly one character long");
  if (width <= n) return self;
  const int64_t missing = width - n;
  const int64_t left = side == kLeft ? 0 : side == kRight ? missing : missing / 2 + (missing & width & 1);
  const Value parts[] = {repeat(heap, fill, left), self, repeat(heap, fill, missing - left)};
  return concat(heap, parts, 3);
}

Value zfill(Heap& heap, const Value& self, const Bound& args) {
  const bool sign = self.text().starts_with('-') || self.text().starts_with('+');
  const int64_t missing = to_integer(args[0], "a width") - char_count(heap, *self.str);
  const Value parts[] = {heap.slice(*self.str, 0, sign), repeat(heap, *heap.view("0").str, missing),
                         heap.slice(*self.str, sign, self.text().size())};
  return concat(heap, parts, 3);
}

Value format_method(Heap& heap, const Value& self, const Args& args) {
  return format_braces(heap, *self.str, args);
}

constexpr Builtin kStrMethods[] = {
    {"strip", strip_method<kBoth>, {"chars"}},
    {"lstrip", strip_method<kLeft>, {"chars"}},
    {"rstrip", strip_method<kRight>, {"chars"}},
    {"split", split_method<false>, {"sep", "maxsplit"}},
    {"rsplit", split_method<true>, {"sep", "maxsplit"}},
    {"splitlines", splitlines_method, {"keepends"}},
    {"partition", partition<false>, {"sep"}, 1},
    {"rpartition", partition<true>, {"sep"}, 1},
    {"replace", replace_method, {"old", "new", "count"}, 2},
    {"join", join_method, {"iterable"}, 1},
    {"startswith", affix<false>, {"prefix", "start", "end"}, 1},
    {"endswith", affix<true>, {"suffix", "start", "end"}, 1},
    {"removeprefix", remove_affix<true>, {"prefix"}, 1},
    {"removesuffix", remove_affix<false>, {"suffix"}, 1},
    {"find", find_method_of_text<false, false>, {"sub", "start", "end"}, 1},
    {"rfind", find_method_of_text<true, false>, {"sub", "start", "end"}, 1},
    {"index", find_method_of_text<false, true>, {"sub", "start", "end"}, 1},
    {"rindex", find_method_of_text<true, true>, {"sub", "start", "end"}, 1},
    {"count", count_method, {"sub"}, 1},
    {"upper", with_case<Case::Upper>},
    {"lower", with_case<Case::Lower>},
    {"casefold", with_case<Case::Lower>},
    {"swapcase", with_case<Case::Swap>},
    {"capitalize", with_case<Case::Capitalize>},
    {"title", with_case<Case::Title>},
    {"isspace", is_class<Class::Space>},
    {"isdigit", is_class<Class::Digit>},
    {"isdecimal", is_class<Class::Digit>},
    {"isnumeric", is_class<Class::Digit>},
    {"isalpha", is_class<Class::Letter>},
    {"isalnum", is_class<Class::Alnum>},
    {"isupper", is_class<Class::Upper>},
    {"islower", is_class<Class::Lower>},
    {"ljust", justify<kLeft>, {"width", "fillchar"}, 1},
    {"rjust", justify<kRight>, {"width", "fillchar"}, 1},
    {"center", justify<kBoth>, {"width", "fillchar"}, 1},
    {"zfill", zfill, {"width"}, 1},
    {"format", nullptr, {}, 0, format_method},
};

// Changing a list or dict in place is refused by the sandbox that templates are written for, yet some templates do it
// and other programs let them; so it works here.

Value append(Heap& heap, const Value& self, const Bound& args) {
  heap.charge(sizeof(Value));
  self.seq->items.push_back(args[0]);
  return Value::none();
}

Value extend(Heap& heap, const Value& self, const Bound& args) {
  const std::vector<Value> more = iterate(heap, args[0])->items;
  heap.charge(more.size() * sizeof(Value));
  self.seq->items.insert(self.seq->items.end(), more.begin(), more.end());
  return Value::none();
}

Value insert(Heap& heap, const Value& self, const Bound& args) {
  auto& items = self.seq->items;
  int64_t at = to_integer(args[0], "the index of insert()");
  const int64_t n = int64_t(items.size());
  at = at < 0 ? std::max<int64_t>(0, at + n) : std::min(at, n);
  heap.charge(sizeof(Value));
  heap.tick(1 + items.size() / 16);
  items.insert(items.begin() + at, args[1]);
  return Value::none();
}

Value pop_list(Heap& heap, const Value& self, const Bound& args) {
  auto& items = self.seq->items;
  int64_t at = integer_or(args[0], "the index of pop()", -1);
  if (at < 0) at += int64_t(items.size());
  if (at < 0 || at >= int64_t(items.size())) fail("pop index out of range");
  heap.tick(1 + items.size() / 16);
  const Value taken = items[size_t(at)];
  items.erase(items.begin() + at);
  return taken;
}

Value reverse_list(Heap& heap, const Value& self, const Bound&) {
  heap.tick(self.seq->items.size());
  std::reverse(self.seq->items.begin(), self.seq->items.end());
  return Value::none();
}

Value index_list(Heap& heap, const Value& self, const Bound& args) {
  for (size_t i = 0; i < self.seq->items.size(); ++i) {
    if (equal(heap, self.seq->items[i], args[0])) return Value::of(int64_t(i));
  }
  fail("the value is not in the list");
}

Value count_list(Heap& heap, const Value& self, const Bound& args) {
  int64_t n = 0;
  for (const Value& item : self.seq->items) n += equal(heap, item, args[0]);
  return Value::of(n);
}

Value copy_list(Heap& heap, const Value& self, const Bound&) {
  return heap.list(self.seq->items);
}

constexpr Builtin kListMethods[] = {
    {"append", append, {"object"}, 1},
    {"extend", extend, {"iterable"}, 1},
    {"insert", insert, {"index", "object"}, 2},
    {"pop", pop_list, {"index"}},
    {"reverse", reverse_list},
    {"copy", copy_list},
    {"index", index_list, {"value"}, 1},
    {"count", count_list, {"value"}, 1},
};
constexpr Builtin kTupleMethods[] = {{"index", index_list, {"value"}, 1}, {"count", count_list, {"value"}, 1}};

Value get(Heap& heap, const Value& self, const Bound& args) {
  heap.tick();
  hash_value(args[0]);
  const Value* found = self.dict->find(args[0]);
  return found ? *found : args[1].is(Kind::Missing) ? Value::none() : args[1];
}

enum class Part : uint8_t { Keys, Values, Items };

template <Part part>
Value view_of(Heap& heap, const Value& self, const Bound&) {
  std::vector<Value> out;
  for (const auto& [key, value] : self.dict->items()) {
    out.push_back(part == Part::Keys ? key : part == Part::Values ? value : heap.tuple({key, value}));
  }
  return heap.seq(SeqKind::View,
                  part == Part::Keys     ? "dict_keys"
                  : part == Part::Values ? "dict_values"
                                         : "dict_items",
                  std::move(out));
}

void merge(Heap& heap, Dict& into, const Value& more) {
  if (!more.is(Kind::Dict)) fail("update() needs a mapping, not {}", type_name(more));
  const auto items = more.dict->items();
  heap.charge(items.size() * 2 * sizeof(Value));
  heap.tick(items.size());
  for (const auto& [key, value] : items) into.set(key, value);
}

Value update(Heap& heap, const Value& self, const Args& args) {
  for (const Value& more : args.positional) merge(heap, *self.dict, more);
  for (const auto& [name, value] : args.named) self.dict->set(Value::of(name), value);
  heap.charge(args.named.size() * 2 * sizeof(Value));
  return Value::none();
}

Value copy_dict(Heap& heap, const Value& self, const Bound&) {
  const Value copy = heap.dict();
  merge(heap, *copy.dict, self);
  return copy;
}

Value setdefault(Heap& heap, const Value& self, const Bound& args) {
  if (const Value* found = self.dict->find(args[0])) return *found;
  heap.charge(2 * sizeof(Value));
  const Value value = args[1].is(Kind::Missing) ? Value::none() : args[1];
  self.dict->set(args[0], value);
  return value;
}

Value pop_dict(Heap& heap, const Value& self, const Bound& args) {
  heap.tick(1 + self.dict->size());
  if (const Value* found = self.dict->find(args[0])) {
    const Value taken = *found;
    self.dict->erase(args[0]);
    return taken;
  }
  if (args[1].is(Kind::Missing)) fail("the key '{}' is not in the dict", to_str(heap, args[0])->bytes);
  return args[1];
}

constexpr Builtin kDictMethods[] = {
    {"get", get, {"key", "default"}, 1},
    {"keys", view_of<Part::Keys>},
    {"values", view_of<Part::Values>},
    {"items", view_of<Part::Items>},
    {"update", nullptr, {}, 0, update},
    {"copy", copy_dict},
    {"setdefault", setdefault, {"key", "default"}, 1},
    {"pop", pop_dict, {"key", "default"}, 1},
};

Value cycle(Heap&, const Value& self, const Args& args) {
  if (args.positional.empty()) fail("no items for cycling given");
  return args.positional[self.loop->index0 % args.positional.size()];
}

Value changed(Heap& heap, const Value& self, const Args& args) {
  const Value now = heap.tuple(args.positional);
  Value& last = self.loop->last_changed;
  if (last.is(Kind::Seq) && equal(heap, last, now)) return Value::of(false);
  last = now;
  return Value::of(true);
}

constexpr Builtin kLoopMethods[] = {{"cycle", nullptr, {}, 0, cycle}, {"changed", nullptr, {}, 0, changed}};

}  // namespace

const Builtin* find_method(const Value& self, std::string_view name) {
  switch (self.kind) {
    case Kind::Str:
      return find_in(kStrMethods, name);
    case Kind::Dict:
      return find_in(kDictMethods, name);
    case Kind::Loop:
      return find_in(kLoopMethods, name);
    case Kind::Seq:
      if (self.seq->kind == SeqKind::List) return find_in(kListMethods, name);
      return self.seq->kind == SeqKind::Tuple ? find_in(kTupleMethods, name) : nullptr;
    default:
      return nullptr;
  }
}

}  // namespace quern::jinja
