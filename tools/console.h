// What appears on the terminal: answers on stdout, everything else on stderr; colours only where a terminal wants them.
#pragma once
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "word_wrap.h"

namespace quern::cli {

/// A line on stderr that moves while something takes long; it appears after 0.3 s and only on a terminal.
class Progress {
 public:
  explicit Progress(bool enabled) : enabled_(enabled) {}
  ~Progress() { stop(); }

  void update(std::string text);
  void stop();

 private:
  void animate();

  const bool enabled_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string text_;
  bool stopping_ = false;
  std::thread thread_;
};

class Console {
 public:
  explicit Console(bool quiet);

  bool quiet() const { return quiet_; }
  bool err_is_terminal() const { return err_terminal_; }
  /// Part of an answer; on a terminal its lines are broken between words. @throws Error(kRuntime) when it cannot be written.
  void answer(std::string_view text, bool dim);
  /// The end of an answer: colours off, and a line break where one is missing.
  void end_answer();
  /// The result of a command, on stdout.
  void result(std::string_view text);
  /// A dim line on stderr that --quiet hides.
  void note(std::string_view text);
  /// A line on stderr in any case.
  void error(std::string_view text);

 private:
  size_t columns() const;

  const bool quiet_, out_terminal_, err_terminal_, colours_;
  bool dim_ = false, at_line_start_ = true;
  WordWrap wrap_;
};

}  // namespace quern::cli
