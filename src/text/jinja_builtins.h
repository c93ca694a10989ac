// Filters, tests, methods and global functions: one table each, in files of their own. A row names its parameters, so
// that binding, defaults and the messages about wrong arguments are the same everywhere.
#pragma once
#include <array>
#include <span>

#include "text/jinja_value.h"

namespace quern::jinja {

struct Args {
  std::vector<Value> positional;
  std::vector<std::pair<const Str*, Value>> named;

  const Value* find(std::string_view name) const;
};

constexpr size_t kMaxParams = 5;
/// Arguments by position of the parameter; Missing where not given.
using Bound = std::array<Value, kMaxParams>;

struct Builtin {
  std::string_view name;
  /// `self` is the filtered value, the tested value or the object; unused for functions.
  Value (*function)(Heap& heap, const Value& self, const Bound& args) = nullptr;
  std::array<std::string_view, kMaxParams> params{};
  size_t n_required = 0;
  /// Takes any arguments as they come, in place of `function`.
  Value (*variadic)(Heap& heap, const Value& self, const Args& args) = nullptr;
};

/// nullptr if there is none of that name.
const Builtin* find_filter(std::string_view name);
const Builtin* find_test(std::string_view name);
const Builtin* find_method(const Value& self, std::string_view name);
const Builtin* find_global(std::string_view name);

/// Binds and calls. @throws Failure for arguments that do not fit.
Value call_builtin(Heap& heap, const Builtin& builtin, const Value& self, const Args& args);

/// `format % args` and format.format(*args), keeping marks.
Value format_percent(Heap& heap, const Str& format, const Value& args);
Value format_braces(Heap& heap, const Str& format, const Args& args);

std::string_view macro_name(const Macro& macro);

/// What raise_exception throws: the template's own message.
struct Raised : Failure {
  using Failure::Failure;
};

// For the tables' files.
const Builtin* find_in(std::span<const Builtin> table, std::string_view name);
int64_t to_integer(const Value& value, std::string_view what);
/// Missing: `fallback`.
int64_t integer_or(const Value& value, std::string_view what, int64_t fallback);
bool flag_or(const Value& value, bool fallback);
const Str& to_text(const Value& value, std::string_view what);
std::span<const Builtin> sequence_filters();
std::span<const Builtin> text_filters();
std::span<const Builtin> number_filters();

}  // namespace quern::jinja
