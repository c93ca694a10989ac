// stdout and stderr may be the same terminal: what was written to one is flushed before the other is used.
#include "console.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "base/utf8.h"
#include "write_out.h"

namespace quern::cli {
namespace {

constexpr std::string_view kDim = "\x1b[2m", kNormal = "\x1b[0m", kClearLine = "\r\x1b[K";
constexpr std::string_view kSpinner = "|/-\\";

bool wants_colours() {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  return !(no_color && *no_color) && !(term && std::string_view(term) == "dumb");
}

/// Control characters of an answer would act on the terminal (clear it, change its title): their pictures are shown instead.
std::string harmless(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool acts = (uint8_t(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7f;
    if (acts) utf8_append(out, 0x2400 + (c == 0x7f ? 0x21 : uint32_t(c)));
    else out += c;
  }
  return out;
}

/// A notice that nobody can read any more (the window was closed) is no reason to stop.
void write_stderr(const std::string& text) {
  if (std::fputs(text.c_str(), stderr) < 0) std::clearerr(stderr);
}

}  // namespace

void Progress::update(std::string text) {
  if (!enabled_) return;
  const std::lock_guard lock(mutex_);
  text_ = std::move(text);
  if (!thread_.joinable()) thread_ = std::thread([this] { animate(); });
}

void Progress::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
  stopping_ = false;
}

void Progress::animate() {
  std::unique_lock lock(mutex_);
  const auto stopped = [this] { return stopping_; };
  if (changed_.wait_for(lock, std::chrono::milliseconds(300), stopped)) return;
  for (size_t i = 0; !stopping_; ++i) {
    write_stderr(fmt::format("{}{} {}", kClearLine, kSpinner[i % kSpinner.size()], text_));
    std::fflush(stderr);
    changed_.wait_for(lock, std::chrono::milliseconds(100), stopped);
  }
  write_stderr(std::string(kClearLine));
  std::fflush(stderr);
}

Console::Console(bool quiet) : quiet_(quiet), out_terminal_(::isatty(STDOUT_FILENO)), err_terminal_(::isatty(STDERR_FILENO)), colours_(wants_colours()) {}

void Console::answer(std::string_view text, bool dim) {
  if (text.empty()) return;
  std::string out;
  if (out_terminal_ && colours_ && dim != dim_) {
    out = dim ? kDim : kNormal;
    dim_ = dim;
  }
  out += out_terminal_ ? wrap_.feed(harmless(text), columns()) : text;
  at_line_start_ = text.back() == '\n';
  write_out(out);
}

void Console::end_answer() {
  std::string out = dim_ ? std::string(kNormal) : "";
  dim_ = false;
  if (!at_line_start_) out += '\n';
  at_line_start_ = true;
  wrap_ = WordWrap();
  write_out(out);
}

/// Of the terminal now; 0 where lines are left to it.
size_t Console::columns() const {
  const char* term = std::getenv("TERM");
  winsize size = {};
  if ((term && std::string_view(term) == "dumb") || ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col;
}

void Console::result(std::string_view text) {
  write_out(text);
  if (!text.empty() && text.back() != '\n') write_out("\n");
}

void Console::note(std::string_view text) {
  if (quiet_) return;
  if (!at_line_start_ && out_terminal_ && err_terminal_) {  // in the middle of an answer
    write_out("\n");
    at_line_start_ = true;
    wrap_.at_line_start();
  }
  std::fflush(stdout);
  const bool dim = err_terminal_ && colours_;
  write_stderr(fmt::format("{}{}{}\n", dim ? kDim : "", text, dim ? kNormal : ""));
}

void Console::error(std::string_view text) {
  std::fflush(stdout);
  write_stderr(fmt::format("quern: {}\n", text));
}

}  // namespace quern::cli
