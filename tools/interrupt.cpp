// The handlers only touch lock-free atomics, the terminal's settings and _exit, as signal handlers must.
#include "interrupt.h"

#include <signal.h>
#include <termios.h>
#include <unistd.h>

namespace quern::cli {
namespace {

std::atomic<bool> interrupted{false};
std::atomic<int> ending{0};
termios terminal_at_start;
bool has_terminal = false;

void on_signal(int) {
  if (interrupted.exchange(true)) ::_exit(130);
}

void on_conversation_interrupt(int) { interrupted.store(true); }

void on_end(int signal) {
  if (ending.exchange(signal) == 0) {
    interrupted.store(true);
    return;
  }
  if (has_terminal) {
    ::tcsetattr(STDIN_FILENO, TCSANOW, &terminal_at_start);
    constexpr char kPasteMarksOff[] = "\x1b[?2004l";
    if (::write(STDIN_FILENO, kPasteMarksOff, sizeof kPasteMarksOff - 1) < 0) ::_exit(128 + signal);
  }
  ::_exit(128 + signal);
}

void install(int signal, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;  // no SA_RESTART: whoever waits for input notices
  ::sigaction(signal, &action, nullptr);
}

}  // namespace

std::atomic<bool>& interrupt_flag() {
  install(SIGINT, on_signal);
  install(SIGTERM, on_signal);
  return interrupted;
}

std::atomic<bool>& conversation_interrupt_flag() {
  has_terminal = ::tcgetattr(STDIN_FILENO, &terminal_at_start) == 0;
  install(SIGINT, on_conversation_interrupt);
  install(SIGTERM, on_end);
  install(SIGHUP, on_end);
  return interrupted;
}

bool is_interrupted() { return interrupted.load(); }

const std::atomic<int>& ending_signal() { return ending; }

}  // namespace quern::cli
