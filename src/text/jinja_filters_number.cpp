// Filters that make numbers, with Python's reading of texts and its rounding.
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "text/jinja_builtins.h"
#include "text/jinja_ops.h"
#include "text/jinja_print.h"
#include "text/jinja_text.h"

namespace quern::jinja {

namespace {

/// Drops white space around and single underscores between digits, as int() and float() allow.
std::optional<std::string> clean_number(Heap& heap, const Str& text) {
  const std::string_view stripped = strip(heap, text, kBoth, nullptr).text();
  std::string out;
  for (size_t i = 0; i < stripped.size(); ++i) {
    if (stripped[i] != '_') {
      out += stripped[i];
    } else if (i == 0 || i + 1 == stripped.size() || !std::isxdigit(static_cast<unsigned char>(stripped[i - 1])) ||
               !std::isxdigit(static_cast<unsigned char>(stripped[i + 1]))) {
      return std::nullopt;
    }
  }
  return out;
}

std::optional<int64_t> parse_int(Heap& heap, const Str& text, int base) {
  auto digits = clean_number(heap, text);
  if (!digits || digits->empty()) return std::nullopt;
  const bool negative = (*digits)[0] == '-';
  if (negative || (*digits)[0] == '+') digits->erase(0, 1);
  if (digits->size() > 2 && (*digits)[0] == '0') {
    const char letter = char((*digits)[1] | 0x20);
    if ((letter == 'x' && base == 16) || (letter == 'o' && base == 8) || (letter == 'b' && base == 2))
      digits->erase(0, 2);
  }
  if (digits->empty() || (*digits)[0] == '-') return std::nullopt;
  int64_t value = 0;
  const auto result = std::from_chars(digits->data(), digits->data() + digits->size(), value, base);
  if (result.ec == std::errc::result_out_of_range)
    fail("the number '{}' does not fit in 64 bits", text.bytes.substr(0, 40));
  if (result.ec != std::errc() || result.ptr != digits->data() + digits->size()) return std::nullopt;
  return negative ? -value : value;
}

std::optional<double> parse_float(Heap& heap, const Str& text) {
  const auto digits = clean_number(heap, text);
  if (!digits || digits->empty() || digits->find_first_of("xXpP(") != digits->npos) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(digits->c_str(), &end);
  return end == digits->c_str() + digits->size() ? std::optional(value) : std::nullopt;
}

Value truncated(double number) {
  if (!(std::fabs(number) < 9.2e18)) fail("the number {} does not fit in 64 bits", float_repr(number));
  return Value::of(int64_t(number));
}

Value int_filter(Heap& heap, const Value& self, const Bound& args) {
  const Value fallback = args[0].is(Kind::Missing) ? Value::of(int64_t{0}) : args[0];
  const int64_t base = integer_or(args[1], "the base of int()", 10);
  if (base < 2 || base > 36) fail("int() needs a base from 2 to 36, found {}", base);
  if (self.is_integer()) return Value::of(self.as_integer());
  if (self.is(Kind::Float)) return std::isfinite(self.number) ? truncated(self.number) : fallback;
  if (!self.is(Kind::Str)) return fallback;
  if (const auto number = parse_int(heap, *self.str, int(base))) return Value::of(*number);
  const auto number = parse_float(heap, *self.str);
  return number && std::isfinite(*number) ? truncated(*number) : fallback;
}

Value float_filter(Heap& heap, const Value& self, const Bound& args) {
  if (self.is_number()) return Value::of(self.as_double());
  if (self.is(Kind::Str)) {
    if (const auto number = parse_float(heap, *self.str)) return Value::of(*number);
  }
  return args[0].is(Kind::Missing) ? Value::of(0.0) : args[0];
}

Value abs_filter(Heap& heap, const Value& self, const Bound&) {
  if (self.is(Kind::Undefined)) fail_undefined(self);
  if (!self.is_number()) fail("bad operand type for abs(): '{}'", type_name(self));
  return truth(Value::of(self.as_double() < 0)) ? negate(self, Op::Neg)
                                                : arithmetic(heap, Op::Add, self, Value::of(int64_t{0}));
}

double power_of_ten(int64_t exponent) {
  return std::strtod(fmt::format("1e{}", exponent).c_str(), nullptr);
}

/// To `precision` decimals, halves to even on the exact binary value, as Python's round().
double rounded(double number, int64_t precision) {
  if (!std::isfinite(number) || precision > 300) return number;
  if (precision >= 0) return std::strtod(fmt::format("{:.{}f}", number, precision).c_str(), nullptr);
  const double unit = power_of_ten(-precision);
  return std::nearbyint(number / unit) * unit;
}

Value round_filter(Heap&, const Value& self, const Bound& args) {
  if (self.is(Kind::Undefined)) fail_undefined(self);
  if (!self.is_number()) fail("type {} doesn't define __round__ method", type_name(self));
  const int64_t precision = integer_or(args[0], "the precision of round()", 0);
  if (precision < -300 || precision > 300) fail("round() needs a precision from -300 to 300, found {}", precision);
  const std::string_view method =
      args[1].is(Kind::Missing) ? "common" : to_text(args[1], "the method of round()").bytes;
  if (method == "common") {
    if (self.is_integer() && precision >= 0) return Value::of(self.as_integer());
    return self.is_integer() ? truncated(rounded(self.as_double(), precision))
                             : Value::of(rounded(self.number, precision));
  }
  if (method != "ceil" && method != "floor") fail("method must be common, ceil or floor");
  const double unit = power_of_ten(precision), scaled = self.as_double() * unit;
  return Value::of((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / unit);
}

constexpr Builtin kFilters[] = {
    {"int", int_filter, {"default", "base"}},
    {"float", float_filter, {"default"}},
    {"abs", abs_filter},
    {"round", round_filter, {"precision", "method"}},
};

}  // namespace

std::span<const Builtin> number_filters() {
  return kFilters;
}

}  // namespace quern::jinja
