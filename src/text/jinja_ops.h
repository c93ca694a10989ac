// Python's operators on template values: truth, comparison, arithmetic, membership, attributes, items, slices,
// iteration. Knows nothing of syntax; filters and the evaluator share it.
#pragma once
#include <optional>

#include "text/jinja_value.h"

namespace quern::jinja {

enum class Op : uint8_t { Add, Sub, Mul, Div, FloorDiv, Mod, Pow, Eq, Ne, Lt, Le, Gt, Ge, In, NotIn, Neg, Pos };

std::string_view op_symbol(Op op);

bool truth(const Value& value);
/// Python's ==, for values of any types.
bool equal(Heap& heap, const Value& a, const Value& b, int depth = 0);
/// -1, 0 or 1. @throws Failure where Python's < is not defined for the two.
int compare(Heap& heap, const Value& a, const Value& b, std::string_view symbol = "<", int depth = 0);
bool compare_op(Heap& heap, Op op, const Value& a, const Value& b);
bool contains(Heap& heap, const Value& container, const Value& item);

Value arithmetic(Heap& heap, Op op, const Value& a, const Value& b);
Value negate(const Value& value, Op op);
/// `a ~ b ~ …`: str() of each, joined.
Value concat(Heap& heap, const Value* parts, size_t n_parts);

/// `value.name`: methods before keys, as Python's getattr comes first.
Value get_attribute(Heap& heap, const Value& value, const Str& name);
/// `value[key]`: items before methods.
Value get_item(Heap& heap, const Value& value, const Value& key);
/// `value[start:stop:step]`; None or Missing for a bound that is not given.
Value get_slice(Heap& heap, const Value& value, const Value& start, const Value& stop, const Value& step);

/// The elements that a for loop sees. Lists are not copied. @throws Failure if the value is not iterable.
Seq* iterate(Heap& heap, const Value& value);
bool is_iterable(const Value& value);
/// len(), or nullopt where Python has none.
std::optional<int64_t> length(Heap& heap, const Value& value);

/// Follows the attribute path "a.b.0" that filters take. What is missing on the way gives `fallback`, or an undefined.
Value attribute_path(Heap& heap, const Value& value, const Value& path, const Value& fallback = Value::missing());

}  // namespace quern::jinja
