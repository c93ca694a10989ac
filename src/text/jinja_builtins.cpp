// Binding of arguments to parameters, look-up in the tables, and the global functions.
#include "text/jinja_builtins.h"

#include <algorithm>
#include <ctime>

#include "text/jinja_ops.h"
#include "text/jinja_print.h"

namespace quern::jinja {

const Value* Args::find(std::string_view name) const {
  for (const auto& [key, value] : named) {
    if (key->bytes == name) return &value;
  }
  return nullptr;
}

const Builtin* find_in(std::span<const Builtin> table, std::string_view name) {
  const auto it = std::find_if(table.begin(), table.end(), [&](const Builtin& row) { return row.name == name; });
  return it == table.end() ? nullptr : &*it;
}

const Builtin* find_filter(std::string_view name) {
  for (const auto table : {text_filters(), sequence_filters(), number_filters()}) {
    if (const Builtin* found = find_in(table, name)) return found;
  }
  return nullptr;
}

Value call_builtin(Heap& heap, const Builtin& builtin, const Value& self, const Args& args) {
  heap.tick(2);
  if (builtin.variadic) return builtin.variadic(heap, self, args);
  const size_t n_params = size_t(std::find(builtin.params.begin(), builtin.params.end(), "") - builtin.params.begin());
  if (args.positional.size() > n_params)
    fail("{}() takes at most {} arguments, {} were given", builtin.name, n_params, args.positional.size());
  Bound bound;
  bound.fill(Value::missing());
  std::copy(args.positional.begin(), args.positional.end(), bound.begin());
  for (const auto& [name, value] : args.named) {
    const auto it = std::find(builtin.params.begin(), builtin.params.begin() + std::ptrdiff_t(n_params), name->bytes);
    const size_t i = size_t(it - builtin.params.begin());
    if (i == n_params) fail("{}() got an unexpected keyword argument '{}'", builtin.name, name->bytes);
    if (!bound[i].is(Kind::Missing)) fail("{}() got multiple values for argument '{}'", builtin.name, name->bytes);
    bound[i] = value;
  }
  for (size_t i = 0; i < builtin.n_required; ++i) {
    if (bound[i].is(Kind::Missing)) fail("{}() is missing the argument '{}'", builtin.name, builtin.params[i]);
  }
  return builtin.function(heap, self, bound);
}

int64_t to_integer(const Value& value, std::string_view what) {
  if (value.is(Kind::Undefined)) fail_undefined(value);
  if (!value.is_integer()) fail("{} must be an integer, not {}", what, type_name(value));
  return value.as_integer();
}

int64_t integer_or(const Value& value, std::string_view what, int64_t fallback) {
  return value.is(Kind::Missing) || value.is(Kind::None) ? fallback : to_integer(value, what);
}

bool flag_or(const Value& value, bool fallback) {
  return value.is(Kind::Missing) ? fallback : truth(value);
}

const Str& to_text(const Value& value, std::string_view what) {
  if (value.is(Kind::Undefined)) fail_undefined(value);
  if (!value.is(Kind::Str)) fail("{} must be str, not {}", what, type_name(value));
  return *value.str;
}

namespace {

Value range(Heap& heap, const Value&, const Bound& args) {
  int64_t start = 0, stop = to_integer(args[0], "an argument of range()"), step = 1;
  if (!args[1].is(Kind::Missing)) {
    start = stop;
    stop = to_integer(args[1], "an argument of range()");
    step = integer_or(args[2], "the step of range()", 1);
  }
  if (step == 0) fail("range() arg 3 must not be zero");
  std::vector<Value> items;
  for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
    if (int64_t(items.size()) >= heap.limits().max_range)
      fail("range() is too big: at most {} elements are allowed", heap.limits().max_range);
    heap.tick();
    items.push_back(Value::of(i));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return heap.seq(SeqKind::Range, "range", std::move(items));
}

void fill_dict(Heap& heap, Dict& dict, const Args& args, std::string_view function) {
  if (args.positional.size() > 1)
    fail("{}() takes at most 1 positional argument, {} were given", function, args.positional.size());
  for (const Value& source : args.positional) {
    if (source.is(Kind::Dict)) {
      for (const auto& [key, value] : source.dict->items()) dict.set(key, value);
      continue;
    }
    const Seq& pairs = *iterate(heap, source);
    for (const Value& pair : pairs.items) {
      const Seq& two = *iterate(heap, pair);
      if (two.items.size() != 2) fail("{}() needs pairs, found a sequence of {}", function, two.items.size());
      dict.set(two.items[0], two.items[1]);
    }
  }
  for (const auto& [name, value] : args.named) dict.set(Value::of(name), value);
  heap.charge(dict.size() * 2 * sizeof(Value));
  heap.tick(dict.size());
}

Value make_namespace(Heap& heap, const Value&, const Args& args) {
  const Value result = heap.dict(Kind::Namespace);
  fill_dict(heap, *result.dict, args, "namespace");
  return result;
}

Value make_dict(Heap& heap, const Value&, const Args& args) {
  const Value result = heap.dict();
  fill_dict(heap, *result.dict, args, "dict");
  return result;
}

Value raise_exception(Heap& heap, const Value&, const Bound& args) {
  throw Raised(std::string(to_str(heap, args[0])->bytes));
}

Value strftime_now(Heap& heap, const Value&, const Bound& args) {
  const std::string format(to_text(args[0], "the format of strftime_now").bytes);
  std::tm now{};
  if (heap.now) {
    now = *heap.now;
  } else {
    const std::time_t clock = std::time(nullptr);
    localtime_r(&clock, &now);
  }
  if (format.size() > 1000 || format.find('\0') != format.npos)
    fail("strftime_now() needs a format of at most 1000 characters");
  // A character after the end tells an empty result from one that did not fit.
  std::string out(64 * 1024, '\0');
  const size_t n = std::strftime(out.data(), out.size(), (format + "|").c_str(), &now);
  if (n == 0) fail("strftime_now('{}') gives too long a text", format);
  out.resize(n - 1);
  return heap.text(std::move(out));
}

constexpr Builtin kGlobals[] = {
    {"range", range, {"start", "stop", "step"}, 1},
    {"namespace", nullptr, {}, 0, make_namespace},
    {"dict", nullptr, {}, 0, make_dict},
    {"raise_exception", raise_exception, {"message"}, 1},
    {"strftime_now", strftime_now, {"format"}, 1},
};

}  // namespace

const Builtin* find_global(std::string_view name) {
  return find_in(kGlobals, name);
}

}  // namespace quern::jinja
