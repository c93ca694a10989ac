// The tests: what may follow `is`.
#include <cmath>

#include "base/utf8.h"
#include "text/jinja_builtins.h"
#include "text/jinja_ops.h"
#include "text/jinja_print.h"
#include "text/jinja_text.h"

namespace quern::jinja {

namespace {

Value answer(bool value) {
  return Value::of(value);
}

/// Whether a text has letters and all of them are of one case.
bool all_of_case(const Value& value, bool upper, Heap& heap) {
  const std::string_view text = to_str(heap, value)->bytes;
  heap.tick_bytes(text.size());
  bool any = false;
  for (size_t i = 0; i < text.size();) {
    const Utf8Char c = utf8_decode(text, i);
    i += c.n_bytes;
    const bool is_upper = to_lower(c.code_point) != c.code_point, is_lower = to_upper(c.code_point) != c.code_point;
    if (upper ? is_lower : is_upper) return false;
    any = any || is_upper || is_lower;
  }
  return any;
}

bool is_sequence(const Value& value) {
  if (value.is(Kind::Seq)) return value.seq->kind <= SeqKind::Range;
  return value.is(Kind::Str) || value.is(Kind::Dict) || value.is(Kind::Undefined);
}

bool is_callable(const Value& value) {
  return value.is(Kind::Macro) || value.is(Kind::Function) || value.is(Kind::Method) || value.is(Kind::Loop) ||
         value.is(Kind::Undefined);
}

bool is_same(const Value& a, const Value& b) {
  if (a.kind != b.kind) return false;
  if (a.is(Kind::Str)) return a.text() == b.text();
  if (a.is_number()) return a.as_double() == b.as_double();
  return a.is(Kind::None) || a.is(Kind::Undefined) || a.dict == b.dict;
}

int64_t modulo(Heap& heap, const Value& value, const Value& by) {
  return arithmetic(heap, Op::Mod, value, by).as_double() != 0;
}

template <Kind kind>
Value is_kind(Heap&, const Value& self, const Bound&) {
  return answer(self.is(kind));
}

template <bool wanted>
Value is_bool(Heap&, const Value& self, const Bound&) {
  return answer(self.is(Kind::Bool) && self.boolean == wanted);
}

template <Op op>
Value compares(Heap& heap, const Value& self, const Bound& args) {
  return answer(compare_op(heap, op, self, args[0]));
}

Value is_defined(Heap&, const Value& self, const Bound&) {
  return answer(!self.is(Kind::Undefined));
}
Value number_test(Heap&, const Value& self, const Bound&) {
  return answer(self.is_number());
}
Value iterable_test(Heap&, const Value& self, const Bound&) {
  return answer(is_iterable(self));
}
Value sequence_test(Heap&, const Value& self, const Bound&) {
  return answer(is_sequence(self));
}
Value callable_test(Heap&, const Value& self, const Bound&) {
  return answer(is_callable(self));
}
Value sameas_test(Heap&, const Value& self, const Bound& args) {
  return answer(is_same(self, args[0]));
}
Value escaped_test(Heap&, const Value& self, const Bound&) {
  return answer(self.is(Kind::Str) && self.str->safe);
}
Value odd_test(Heap& heap, const Value& self, const Bound&) {
  return answer(modulo(heap, self, Value::of(int64_t{2})) != 0);
}
Value even_test(Heap& heap, const Value& self, const Bound&) {
  return answer(modulo(heap, self, Value::of(int64_t{2})) == 0);
}
Value divisible_test(Heap& heap, const Value& self, const Bound& args) {
  return answer(modulo(heap, self, args[0]) == 0);
}
Value lower_test(Heap& heap, const Value& self, const Bound&) {
  return answer(all_of_case(self, false, heap));
}
Value upper_test(Heap& heap, const Value& self, const Bound&) {
  return answer(all_of_case(self, true, heap));
}
Value filter_test(Heap&, const Value& self, const Bound&) {
  return answer(self.is(Kind::Str) && find_filter(self.text()) != nullptr);
}
Value test_test(Heap&, const Value& self, const Bound&) {
  return answer(self.is(Kind::Str) && find_test(self.text()) != nullptr);
}

constexpr Builtin kTests[] = {
    {"defined", is_defined},
    {"undefined", is_kind<Kind::Undefined>},
    {"none", is_kind<Kind::None>},
    {"boolean", is_kind<Kind::Bool>},
    {"true", is_bool<true>},
    {"false", is_bool<false>},
    {"integer", is_kind<Kind::Int>},
    {"float", is_kind<Kind::Float>},
    {"number", number_test},
    {"string", is_kind<Kind::Str>},
    {"mapping", is_kind<Kind::Dict>},
    {"sequence", sequence_test},
    {"iterable", iterable_test},
    {"callable", callable_test},
    {"sameas", sameas_test, {"other"}, 1},
    {"escaped", escaped_test},
    {"odd", odd_test},
    {"even", even_test},
    {"divisibleby", divisible_test, {"num"}, 1},
    {"lower", lower_test},
    {"upper", upper_test},
    {"filter", filter_test},
    {"test", test_test},
    {"in", compares<Op::In>, {"seq"}, 1},
    {"eq", compares<Op::Eq>, {"other"}, 1},
    {"equalto", compares<Op::Eq>, {"other"}, 1},
    {"==", compares<Op::Eq>, {"other"}, 1},
    {"ne", compares<Op::Ne>, {"other"}, 1},
    {"!=", compares<Op::Ne>, {"other"}, 1},
    {"lt", compares<Op::Lt>, {"other"}, 1},
    {"lessthan", compares<Op::Lt>, {"other"}, 1},
    {"<", compares<Op::Lt>, {"other"}, 1},
    {"le", compares<Op::Le>, {"other"}, 1},
    {"<=", compares<Op::Le>, {"other"}, 1},
    {"gt", compares<Op::Gt>, {"other"}, 1},
    {"greaterthan", compares<Op::Gt>, {"other"}, 1},
    {">", compares<Op::Gt>, {"other"}, 1},
    {"ge", compares<Op::Ge>, {"other"}, 1},
    {">=", compares<Op::Ge>, {"other"}, 1},
};

}  // namespace

const Builtin* find_test(std::string_view name) {
  return find_in(kTests, name);
}

}  // namespace quern::jinja
