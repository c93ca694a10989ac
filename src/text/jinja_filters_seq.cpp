// Filters over sequences: what makes, picks, orders and folds elements.
#include <algorithm>

#include "text/jinja_builtins.h"
#include "text/jinja_ops.h"
#include "text/jinja_print.h"
#include "text/jinja_text.h"

namespace quern::jinja {

namespace {

bool given(const Value& value) {
  return !value.is(Kind::Missing) && !value.is(Kind::None);
}

Value length_filter(Heap& heap, const Value& self, const Bound&) {
  const auto n = length(heap, self);
  if (!n) fail("object of type '{}' has no len()", type_name(self));
  return Value::of(*n);
}

Value default_filter(Heap& heap, const Value& self, const Bound& args) {
  if (self.is(Kind::Undefined) || (flag_or(args[1], false) && !truth(self)))
    return args[0].is(Kind::Missing) ? heap.view("") : args[0];
  return self;
}

Value items(Heap& heap, const Value& self, const Bound&) {
  if (self.is(Kind::Undefined)) return heap.generator({});
  if (!self.is(Kind::Dict)) fail("Can only get item pairs from a mapping.");
  std::vector<Value> pairs;
  for (const auto& [key, value] : self.dict->items()) pairs.push_back(heap.tuple({key, value}));
  return heap.generator(std::move(pairs));
}

Value list(Heap& heap, const Value& self, const Bound&) {
  return heap.list(iterate(heap, self)->items);
}

Value first(Heap& heap, const Value& self, const Bound&) {
  const Seq& seq = *iterate(heap, self);
  return seq.items.empty() ? Value::undefined(heap.view("the first item of an empty sequence").str) : seq.items.front();
}

Value last(Heap& heap, const Value& self, const Bound&) {
  const Seq& seq = *iterate(heap, self);
  return seq.items.empty() ? Value::undefined(heap.view("the last item of an empty sequence").str) : seq.items.back();
}

/// What filters with attribute= look at in an element.
Value key_of(Heap& heap, const Value& item, const Value& attribute, bool case_sensitive) {
  const Value key = given(attribute) ? attribute_path(heap, item, attribute) : item;
  return case_sensitive || !key.is(Kind::Str) ? key : change_case(heap, *key.str, Case::Lower);
}

Value join_filter(Heap& heap, const Value& self, const Bound& args) {
  const Str& separator = args[0].is(Kind::Missing) ? *heap.view("").str : *to_str(heap, args[0]);
  std::vector<const Str*> parts;
  for (const Value& item : iterate(heap, self)->items) {
    heap.tick();
    parts.push_back(to_str(heap, given(args[1]) ? attribute_path(heap, item, args[1]) : item));
  }
  return join(heap, separator, parts);
}

Value reverse(Heap& heap, const Value& self, const Bound&) {
  if (self.is(Kind::Str)) return get_slice(heap, self, Value::none(), Value::none(), Value::of(int64_t{-1}));
  std::vector<Value> copy = iterate(heap, self)->items;
  std::reverse(copy.begin(), copy.end());
  return heap.generator(std::move(copy));
}

/// A stable sort by keys made beforehand; `compare` charges for its steps.
std::vector<Value> sorted(Heap& heap, const std::vector<Value>& values, const std::vector<std::vector<Value>>& keys,
                          bool descending) {
  std::vector<size_t> order(values.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    for (size_t k = 0; k < keys[a].size(); ++k) {
      const int c = compare(heap, keys[a][k], keys[b][k]);
      if (c != 0) return descending ? c > 0 : c < 0;
    }
    return false;
  });
  std::vector<Value> out;
  for (const size_t i : order) out.push_back(values[i]);
  return out;
}

Value sort(Heap& heap, const Value& self, const Bound& args) {
  const bool case_sensitive = flag_or(args[1], false);
  const std::vector<Value> values = iterate(heap, self)->items;
  std::vector<Value> attributes;
  if (args[2].is(Kind::Str)) {
    attributes = split(heap, *args[2].str, heap.view(",").str, -1, false);
  } else {
    attributes.push_back(args[2]);
  }
  std::vector<std::vector<Value>> keys;
  for (const Value& item : values) {
    keys.emplace_back();
    for (const Value& attribute : attributes) keys.back().push_back(key_of(heap, item, attribute, case_sensitive));
  }
  return heap.list(sorted(heap, values, keys, flag_or(args[0], false)));
}

Value dictsort(Heap& heap, const Value& self, const Bound& args) {
  if (!self.is(Kind::Dict)) fail("dictsort() needs a mapping, not {}", type_name(self));
  const std::string_view by = args[1].is(Kind::Missing) ? "key" : to_text(args[1], "the 'by' of dictsort()").bytes;
  if (by != "key" && by != "value") fail("You can only sort by either \"key\" or \"value\"");
  std::vector<Value> values;
  std::vector<std::vector<Value>> keys;
  for (const auto& [key, value] : self.dict->items()) {
    values.push_back(heap.tuple({key, value}));
    keys.push_back({key_of(heap, by == "key" ? key : value, Value::none(), flag_or(args[0], false))});
  }
  return heap.list(sorted(heap, values, keys, flag_or(args[2], false)));
}

Value unique(Heap& heap, const Value& self, const Bound& args) {
  std::vector<Value> out;
  Dict& seen = *heap.dict().dict;
  for (const Value& item : iterate(heap, self)->items) {
    const Value key = key_of(heap, item, args[1], flag_or(args[0], false));
    hash_value(key);
    if (seen.find(key)) continue;
    seen.set(key, Value::none());
    out.push_back(item);
  }
  return heap.generator(std::move(out));
}

template <bool largest>
Value extreme(Heap& heap, const Value& self, const Bound& args) {
  const Seq& seq = *iterate(heap, self);
  if (seq.items.empty()) return Value::undefined(heap.view("an item of an empty sequence").str);
  const bool case_sensitive = flag_or(args[0], false);
  Value best = seq.items[0], best_key = key_of(heap, best, args[1], case_sensitive);
  for (const Value& item : seq.items) {
    const Value key = key_of(heap, item, args[1], case_sensitive);
    const int order = compare(heap, key, best_key);
    if (largest ? order > 0 : order < 0) {
      best = item;
      best_key = key;
    }
  }
  return best;
}

Value sum(Heap& heap, const Value& self, const Bound& args) {
  Value total = args[1].is(Kind::Missing) ? Value::of(int64_t{0}) : args[1];
  for (const Value& item : iterate(heap, self)->items) {
    total = arithmetic(heap, Op::Add, total, given(args[0]) ? attribute_path(heap, item, args[0]) : item);
  }
  return total;
}

Value groupby(Heap& heap, const Value& self, const Bound& args) {
  const bool case_sensitive = flag_or(args[2], false);
  const std::vector<Value> values = iterate(heap, self)->items;
  std::vector<std::vector<Value>> keys;
  const auto group_of = [&](const Value& item, bool folded) {
    const Value found = attribute_path(heap, item, args[0], given(args[1]) ? args[1] : Value::missing());
    return folded ? key_of(heap, found, Value::none(), case_sensitive) : found;
  };
  for (const Value& item : values) keys.push_back({group_of(item, true)});
  std::vector<Value> groups;
  std::vector<Value> members;
  Value current = Value::missing();
  const auto close = [&] {
    if (!members.empty()) groups.push_back(heap.tuple({group_of(members[0], false), heap.list(std::move(members))}));
    members.clear();
  };
  for (const Value& item : sorted(heap, values, keys, false)) {
    const Value key = group_of(item, true);
    if (current.is(Kind::Missing) || !equal(heap, key, current)) close();
    current = key;
    members.push_back(item);
  }
  close();
  return heap.list(std::move(groups));
}

Value batch(Heap& heap, const Value& self, const Bound& args) {
  const int64_t size = to_integer(args[0], "the size of batch()");
  if (size < 1) fail("batch() needs a size of at least 1, found {}", size);
  std::vector<Value> batches, row;
  const auto close = [&] {
    batches.push_back(heap.list(std::move(row)));
    row.clear();
  };
  for (const Value& item : iterate(heap, self)->items) {
    if (int64_t(row.size()) == size) close();
    row.push_back(item);
  }
  if (!row.empty()) {
    while (given(args[1]) && int64_t(row.size()) < size) {
      heap.charge(sizeof(Value));
      row.push_back(args[1]);
    }
    close();
  }
  return heap.generator(std::move(batches));
}

Value slice_filter(Heap& heap, const Value& self, const Bound& args) {
  const int64_t n_slices = to_integer(args[0], "the number of slice()");
  const std::vector<Value> values = iterate(heap, self)->items;
  if (n_slices < 1 || n_slices > 100'000) fail("slice() needs a number from 1 to 100000, found {}", n_slices);
  const size_t n = size_t(n_slices), each = values.size() / n, longer = values.size() % n;
  std::vector<Value> out;
  size_t begin = 0;
  for (size_t i = 0; i < n; ++i) {
    const size_t end = begin + each + (i < longer ? 1 : 0);
    std::vector<Value> row(values.begin() + std::ptrdiff_t(begin), values.begin() + std::ptrdiff_t(end));
    if (given(args[1]) && i >= longer && longer) row.push_back(args[1]);
    out.push_back(heap.list(std::move(row)));
    begin = end;
  }
  return heap.generator(std::move(out));
}

Args without_first(const Args& args, size_t n) {
  Args rest;
  rest.positional.assign(args.positional.begin() + std::ptrdiff_t(std::min(n, args.positional.size())),
                         args.positional.end());
  rest.named = args.named;
  return rest;
}

Value map(Heap& heap, const Value& self, const Args& args) {
  std::vector<Value> out;
  if (!truth(self)) return heap.generator({});  // jinja2 looks before it iterates: None has no elements here
  const Value* attribute = args.find("attribute");
  if (attribute && args.positional.empty()) {
    const Value* fallback = args.find("default");
    for (const Value& item : iterate(heap, self)->items) {
      out.push_back(attribute_path(heap, item, *attribute, fallback ? *fallback : Value::missing()));
    }
    return heap.generator(std::move(out));
  }
  if (args.positional.empty()) fail("map requires a filter argument");
  const std::string_view name = to_text(args.positional[0], "the filter of map()").bytes;
  const Builtin* filter = find_filter(name);
  if (!filter) fail("the filter '{}' of map() is not known", name);
  const Args rest = without_first(args, 1);
  const std::vector<Value> values = iterate(heap, self)->items;
  for (const Value& item : values) out.push_back(call_builtin(heap, *filter, item, rest));
  return heap.generator(std::move(out));
}

/// select, reject, selectattr, rejectattr: the elements whose test (truth, if none is named) is as wanted.
template <bool by_attribute, bool wanted>
Value pick(Heap& heap, const Value& self, const Args& args) {
  size_t n_used = 0;
  Value attribute;
  if (by_attribute) {
    if (args.positional.empty()) fail("selectattr and rejectattr need the name of an attribute");
    attribute = args.positional[n_used++];
  }
  const Builtin* test = nullptr;
  if (args.positional.size() > n_used) {
    const std::string_view name = to_text(args.positional[n_used++], "the test of a select filter").bytes;
    test = find_test(name);
    if (!test) fail("the test '{}' of a select filter is not known", name);
  }
  if (!truth(self)) return heap.generator({});  // as for map
  const Args rest = without_first(args, n_used);
  std::vector<Value> out;
  const std::vector<Value> values = iterate(heap, self)->items;
  for (const Value& item : values) {
    heap.tick();
    const Value looked_at = by_attribute ? attribute_path(heap, item, attribute) : item;
    if (truth(test ? call_builtin(heap, *test, looked_at, rest) : looked_at) == wanted) out.push_back(item);
  }
  return heap.generator(std::move(out));
}

Value attr(Heap& heap, const Value& self, const Bound& args) {
  const Str& name = to_text(args[0], "the name of attr()");
  if (self.is(Kind::Dict) && !find_method(self, name.bytes)) return Value::undefined(&name);  // attributes, not items
  return get_attribute(heap, self, name);
}

constexpr Builtin kFilters[] = {
    {"length", length_filter},
    {"count", length_filter},
    {"default", default_filter, {"default_value", "boolean"}},
    {"d", default_filter, {"default_value", "boolean"}},
    {"items", items},
    {"list", list},
    {"first", first},
    {"last", last},
    {"join", join_filter, {"d", "attribute"}},
    {"reverse", reverse},
    {"sort", sort, {"reverse", "case_sensitive", "attribute"}},
    {"dictsort", dictsort, {"case_sensitive", "by", "reverse"}},
    {"unique", unique, {"case_sensitive", "attribute"}},
    {"min", extreme<false>, {"case_sensitive", "attribute"}},
    {"max", extreme<true>, {"case_sensitive", "attribute"}},
    {"sum", sum, {"attribute", "start"}},
    {"groupby", groupby, {"attribute", "default", "case_sensitive"}, 1},
    {"batch", batch, {"linecount", "fill_with"}, 1},
    {"slice", slice_filter, {"slices", "fill_with"}, 1},
    {"attr", attr, {"name"}, 1},
    {"map", nullptr, {}, 0, map},
    {"select", nullptr, {}, 0, pick<false, true>},
    {"reject", nullptr, {}, 0, pick<false, false>},
    {"selectattr", nullptr, {}, 0, pick<true, true>},
    {"rejectattr", nullptr, {}, 0, pick<true, false>},
};

}  // namespace

std::span<const Builtin> sequence_filters() {
  return kFilters;
}

}  // namespace quern::jinja
