// Ctrl-C: the first one asks the work to stop, the second ends the program at once; in a conversation, none of them does.
#pragma once
#include <atomic>

namespace quern::cli {

/// Installs the handler (SIGINT, SIGTERM) and returns the flag it sets.
std::atomic<bool>& interrupt_flag();

/// For a conversation: SIGINT only ever sets the flag, whoever waits clears it. SIGTERM and SIGHUP set it too, and ending_signal(), so
/// that there is time to save; the second of them puts the terminal back in order and ends the program with 128 + its number.
std::atomic<bool>& conversation_interrupt_flag();
/// Whether the flag is set.
bool is_interrupted();
/// The signal that asked the program to end, or 0.
const std::atomic<int>& ending_signal();

}  // namespace quern::cli
