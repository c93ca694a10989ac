// Ctrl-C: the first one asks the work to stop, the second ends the program at once.
#pragma once
#include <atomic>

namespace quern::cli {

/// Installs the handler (SIGINT, SIGTERM) and returns the flag it sets.
std::atomic<bool>& interrupt_flag();

}  // namespace quern::cli
