// Not by fwrite: it fails when a signal arrives in the middle, and does not say how much it wrote.
#include "write_out.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "interrupt.h"
#include "quern/error.h"

namespace quern::cli {
namespace {

constexpr int kPatienceMs = 200;  // how soon a stop has to be over

[[noreturn]] void fail() { throw Error(ErrorKind::kRuntime, fmt::format("writing to standard output failed: {}", std::strerror(errno))); }

/// Whether the reader takes more within a moment; another signal ends the wait.
bool is_taken() {
  pollfd place = {STDOUT_FILENO, POLLOUT, 0};
  return ::poll(&place, 1, kPatienceMs) > 0;
}

}  // namespace

void write_out(std::string_view text) {
  if (std::fflush(stdout) != 0) fail();
  while (!text.empty()) {
    const ssize_t n = ::write(STDOUT_FILENO, text.data(), text.size());
    if (n >= 0) {
      text.remove_prefix(size_t(n));
    } else if (errno == EINTR) {
      if (is_interrupted() && !is_taken()) return;
    } else {
      fail();
    }
  }
}

}  // namespace quern::cli
