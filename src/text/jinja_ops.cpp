// Python's operators on template values: truth, comparison, arithmetic and membership.
#include "text/jinja_ops.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/jinja_builtins.h"
#include "text/jinja_print.h"
#include "text/jinja_text.h"

namespace quern::jinja {

std::string_view op_symbol(Op op) {
  constexpr std::string_view kSymbols[] = {
      "+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "-", "+"};
  return kSymbols[size_t(op)];
}

bool truth(const Value& value) {
  switch (value.kind) {
    case Kind::Missing:
    case Kind::Undefined:
    case Kind::None:
      return false;
    case Kind::Bool:
      return value.boolean;
    case Kind::Int:
      return value.integer != 0;
    case Kind::Float:
      return value.number != 0;
    case Kind::Str:
      return !value.text().empty();
    case Kind::Seq:
      return value.seq->kind == SeqKind::Generator || !value.seq->items.empty();
    case Kind::Dict:
      return value.dict->size() != 0;
    default:
      return true;
  }
}

namespace {

bool equal_seqs(Heap& heap, const Seq& a, const Seq& b, int depth) {
  if (&a == &b) return true;
  if (a.kind != b.kind || a.kind == SeqKind::Generator || a.items.size() != b.items.size()) return false;
  for (size_t i = 0; i < a.items.size(); ++i) {
    if (!equal(heap, a.items[i], b.items[i], depth + 1)) return false;
  }
  return true;
}

bool equal_dicts(Heap& heap, const Dict& a, const Dict& b, int depth) {
  if (&a == &b) return true;
  if (a.size() != b.size()) return false;
  for (const auto& [key, value] : a.items()) {
    const Value* other = b.find(key);
    if (other == nullptr || !equal(heap, value, *other, depth + 1)) return false;
  }
  return true;
}

[[noreturn]] void fail_operands(std::string_view symbol, const Value& a, const Value& b) {
  fail("unsupported operand type(s) for {}: '{}' and '{}'", symbol, type_name(a), type_name(b));
}

double floor_mod(double a, double b) {
  double m = std::fmod(a, b);
  if (m != 0 && (m < 0) != (b < 0)) m += b;
  return m;
}

/// Powers with a whole exponent, and square roots: no template needs more, and libm's pow differs from CPU to CPU.
double power(double base, double exponent) {
  if (exponent == 0.5) return std::sqrt(base);
  if (exponent != std::trunc(exponent) || std::fabs(exponent) > 1e9)
    fail("a power needs a whole exponent, found {}", float_repr(exponent));
  double result = 1, square = base;
  for (uint64_t n = uint64_t(std::fabs(exponent)); n != 0; n /= 2) {
    if (n % 2) result *= square;
    square *= square;
  }
  if (exponent < 0 && base == 0) fail("0.0 cannot be raised to a negative power");
  return exponent < 0 ? 1 / result : result;
}

Value float_arithmetic(Op op, double a, double b) {
  switch (op) {
    case Op::Add:
      return Value::of(a + b);
    case Op::Sub:
      return Value::of(a - b);
    case Op::Mul:
      return Value::of(a * b);
    case Op::Pow:
      return Value::of(power(a, b));
    default:
      break;
  }
  if (b == 0) fail("{}", op == Op::Div ? "division by zero" : "float floor division or modulo by zero");
  if (op == Op::Div) return Value::of(a / b);
  if (op == Op::Mod) return Value::of(floor_mod(a, b));
  return Value::of(std::floor((a - floor_mod(a, b)) / b + 0.5));
}

Value integer_power(int64_t base, int64_t exponent) {
  if (exponent < 0) return Value::of(power(double(base), double(exponent)));
  int64_t result = 1;
  for (int64_t i = 0; i < exponent && (base != 0 && base != 1); ++i) {
    if (base == -1) return Value::of(int64_t(exponent % 2 == 0 ? 1 : -1));
    if (__builtin_mul_overflow(result, base, &result)) fail("{} ** {} does not fit in 64 bits", base, exponent);
  }
  if (exponent > 0 && (base == 0 || base == 1)) result = base;
  return Value::of(result);
}

Value integer_arithmetic(Op op, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflow = false;
  switch (op) {
    case Op::Add:
      overflow = __builtin_add_overflow(a, b, &result);
      break;
    case Op::Sub:
      overflow = __builtin_sub_overflow(a, b, &result);
      break;
    case Op::Mul:
      overflow = __builtin_mul_overflow(a, b, &result);
      break;
    case Op::Pow:
      return integer_power(a, b);
    default:
      if (b == 0) fail("{}", op == Op::Div ? "division by zero" : "integer division or modulo by zero");
      if (op == Op::Div) return Value::of(double(a) / double(b));
      if (b == -1) return op == Op::Mod ? Value::of(int64_t{0}) : integer_arithmetic(Op::Sub, 0, a);
      result = op == Op::Mod ? a % b : a / b;
      if (op == Op::Mod && result != 0 && (result < 0) != (b < 0)) result += b;
      if (op == Op::FloorDiv && a % b != 0 && ((a < 0) != (b < 0))) --result;
  }
  if (overflow) fail("{} {} {} does not fit in 64 bits", a, op_symbol(op), b);
  return Value::of(result);
}

Value add_texts(Heap& heap, const Value& a, const Value& b) {
  const bool safe = a.str->safe || b.str->safe;
  const Str* parts[] = {a.str, b.str};
  if (safe) {
    for (const Str*& part : parts) part = escape_html(heap, *part).str;
  }
  heap.check_text(parts[0]->bytes.size() + parts[1]->bytes.size());
  TextBuilder out;
  for (const Str* part : parts) out.append(*part);
  return heap.text(std::move(out), safe);
}

Value add_seqs(Heap& heap, const Value& a, const Value& b) {
  if (a.seq->kind != b.seq->kind || (a.seq->kind != SeqKind::List && a.seq->kind != SeqKind::Tuple))
    fail_operands("+", a, b);
  heap.charge((a.seq->items.size() + b.seq->items.size()) * sizeof(Value));
  std::vector<Value> items = a.seq->items;
  items.insert(items.end(), b.seq->items.begin(), b.seq->items.end());
  return heap.seq(a.seq->kind, a.seq->type_name, std::move(items));
}

Value repeat_seq(Heap& heap, const Value& seq, int64_t times) {
  if (seq.seq->kind != SeqKind::List && seq.seq->kind != SeqKind::Tuple) fail_operands("*", seq, Value::of(times));
  std::vector<Value> items;
  const uint64_t size = seq.seq->items.size();
  if (times > 0 && size > 0) {
    if (uint64_t(times) > heap.limits().max_steps / size) heap.tick(heap.limits().max_steps);
    heap.charge(size * uint64_t(times) * sizeof(Value));
    for (int64_t i = 0; i < times; ++i) items.insert(items.end(), seq.seq->items.begin(), seq.seq->items.end());
  }
  return heap.seq(seq.seq->kind, seq.seq->type_name, std::move(items));
}

}  // namespace

bool same_key(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    if (a.is_integer() && b.is_integer()) return a.as_integer() == b.as_integer();
    return a.as_double() == b.as_double();
  }
  if (a.kind != b.kind) return false;
  if (a.is(Kind::Str)) return a.text() == b.text();
  if (a.is(Kind::Seq)) {
    return a.seq->kind == b.seq->kind &&
           std::equal(a.seq->items.begin(), a.seq->items.end(), b.seq->items.begin(), b.seq->items.end(), same_key);
  }
  return a.is(Kind::None) || a.is(Kind::Undefined) || a.dict == b.dict;
}

bool equal(Heap& heap, const Value& a, const Value& b, int depth) {
  check_nesting(depth);
  heap.tick();
  if (a.kind != b.kind) return same_key(a, b);
  switch (a.kind) {
    case Kind::Str:
      heap.tick_bytes(std::min(a.text().size(), b.text().size()));
      return a.text() == b.text();
    case Kind::Seq:
      return equal_seqs(heap, *a.seq, *b.seq, depth);
    case Kind::Dict:
      return equal_dicts(heap, *a.dict, *b.dict, depth);
    case Kind::Method:
      return a.method->builtin == b.method->builtin && equal(heap, a.method->self, b.method->self, depth + 1);
    default:
      return same_key(a, b);
  }
}

int compare(Heap& heap, const Value& a, const Value& b, std::string_view symbol, int depth) {
  check_nesting(depth);
  heap.tick();
  if (a.is_number() && b.is_number()) {
    if (a.is_integer() && b.is_integer()) return a.as_integer() < b.as_integer() ? -1 : a.as_integer() > b.as_integer();
    const double x = a.as_double(), y = b.as_double();
    return x < y ? -1 : x > y;
  }
  if (a.is(Kind::Str) && b.is(Kind::Str)) {
    heap.tick_bytes(std::min(a.text().size(), b.text().size()));
    const int order = a.text().compare(b.text());
    return order < 0 ? -1 : order > 0;
  }
  if (a.is(Kind::Seq) && b.is(Kind::Seq) && a.seq->kind == b.seq->kind && a.seq->kind <= SeqKind::Tuple) {
    const auto &x = a.seq->items, &y = b.seq->items;
    for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
      if (!equal(heap, x[i], y[i])) return compare(heap, x[i], y[i], symbol, depth + 1);
    }
    return x.size() < y.size() ? -1 : x.size() > y.size();
  }
  if (a.is(Kind::Undefined)) fail_undefined(a);
  if (b.is(Kind::Undefined)) fail_undefined(b);
  fail("'{}' not supported between instances of '{}' and '{}'", symbol, type_name(a), type_name(b));
}

bool compare_op(Heap& heap, Op op, const Value& a, const Value& b) {
  switch (op) {
    case Op::Eq:
    case Op::Ne:
      return equal(heap, a, b) == (op == Op::Eq);
    case Op::In:
      return contains(heap, b, a);
    case Op::NotIn:
      return !contains(heap, b, a);
    default:
      break;
  }
  if ((a.is(Kind::Float) && std::isnan(a.number)) || (b.is(Kind::Float) && std::isnan(b.number))) return false;
  const int order = compare(heap, a, b, op_symbol(op));
  switch (op) {
    case Op::Lt:
      return order < 0;
    case Op::Le:
      return order <= 0;
    case Op::Gt:
      return order > 0;
    default:
      return order >= 0;
  }
}

bool contains(Heap& heap, const Value& container, const Value& item) {
  switch (container.kind) {
    case Kind::Str:
      if (item.is(Kind::Undefined)) fail_undefined(item);
      if (!item.is(Kind::Str)) fail("'in <string>' requires string as left operand, not {}", type_name(item));
      return find(heap, container.text(), item.text()).has_value();
    case Kind::Dict:
      heap.tick();
      return container.dict->find(item) != nullptr;
    case Kind::Undefined:
      return false;
    case Kind::Seq:
    case Kind::Loop:
      for (const Value& element : iterate(heap, container)->items) {
        if (equal(heap, element, item)) return true;
      }
      return false;
    default:
      fail("argument of type '{}' is not iterable", type_name(container));
  }
}

Value arithmetic(Heap& heap, Op op, const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    if (a.is_integer() && b.is_integer()) return integer_arithmetic(op, a.as_integer(), b.as_integer());
    return float_arithmetic(op, a.as_double(), b.as_double());
  }
  if (op == Op::Mod && a.is(Kind::Str)) return format_percent(heap, *a.str, b);
  if (a.is(Kind::Undefined)) fail_undefined(a);
  if (b.is(Kind::Undefined)) fail_undefined(b);
  if (op == Op::Add) {
    if (a.is(Kind::Str) && b.is(Kind::Str)) return add_texts(heap, a, b);
    if (a.is(Kind::Seq) && b.is(Kind::Seq)) return add_seqs(heap, a, b);
    if (a.is(Kind::Str)) fail("can only concatenate str (not \"{}\") to str", type_name(b));
    if (a.is_list()) fail("can only concatenate list (not \"{}\") to list", type_name(b));
  }
  if (op == Op::Mul) {
    const Value &seq = a.is_integer() ? b : a, &times = a.is_integer() ? a : b;
    if (seq.is(Kind::Str) && times.is_integer()) return repeat(heap, *seq.str, times.as_integer());
    if (seq.is(Kind::Seq) && times.is_integer()) return repeat_seq(heap, seq, times.as_integer());
  }
  fail_operands(op_symbol(op), a, b);
}

Value negate(const Value& value, Op op) {
  if (value.is(Kind::Undefined)) fail_undefined(value);
  if (value.is(Kind::Float)) return Value::of(op == Op::Neg ? -value.number : value.number);
  if (!value.is_integer()) fail("bad operand type for unary {}: '{}'", op_symbol(op), type_name(value));
  return op == Op::Neg ? integer_arithmetic(Op::Sub, 0, value.as_integer()) : Value::of(value.as_integer());
}

Value concat(Heap& heap, const Value* parts, size_t n_parts) {
  TextBuilder out;
  for (size_t i = 0; i < n_parts; ++i) append_str(heap, out, parts[i]);
  return heap.text(std::move(out));
}

}  // namespace quern::jinja
