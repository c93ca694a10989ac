// Writing answers to standard output.
#pragma once
#include <string_view>

namespace quern::cli {

/// Writes all of it at once. A signal does not make it fail; after one that asks the program to stop, what a reader that takes nothing
/// (a full pipe, a terminal that was halted) has not taken within a moment is dropped.
/// @throws Error(kRuntime) when the reader is gone, the disk full and the like.
void write_out(std::string_view text);

}  // namespace quern::cli
