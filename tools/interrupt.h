// Ctrl-C: the first one asks the work to stop, the second ends the program at once; in a conversation, none of them does.
#pragma once
#include <atomic>

namespace quern::cli {

/// Installs the handler (SIGINT, SIGTERM) and returns the flag it sets.
std::atomic<bool>& interrupt_flag();

/// For a conversation: SIGINT only ever sets the flag, whoever waits clears it; SIGTERM and SIGHUP put the terminal back in order and
/// end the program with 128 + their number.
std::atomic<bool>& conversation_interrupt_flag();

}  // namespace quern::cli
