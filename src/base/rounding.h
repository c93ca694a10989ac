// Counting in whole units.
#pragma once
#include <cstddef>

namespace quern {

/// Units that hold n. unit > 0.
constexpr size_t ceil_div(size_t n, size_t unit) { return (n + unit - 1) / unit; }
/// The least multiple of unit that is not below n.
constexpr size_t round_up(size_t n, size_t unit) { return ceil_div(n, unit) * unit; }

}  // namespace quern
