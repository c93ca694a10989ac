// The handler only touches lock-free atomics and _exit, as a signal handler must.
#include "interrupt.h"

#include <signal.h>
#include <unistd.h>

namespace quern::cli {
namespace {

std::atomic<bool> interrupted{false};

void on_signal(int) {
  if (interrupted.exchange(true)) ::_exit(130);
}

}  // namespace

std::atomic<bool>& interrupt_flag() {
  static const bool installed = [] {
    struct sigaction action = {};
    action.sa_handler = on_signal;
    ::sigaction(SIGINT, &action, nullptr);
    ::sigaction(SIGTERM, &action, nullptr);
    return true;
  }();
  (void)installed;
  return interrupted;
}

}  // namespace quern::cli
