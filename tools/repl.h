// The conversation as a user drives it: input lines become messages or commands, answers are streamed, costs are shown.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "console.h"
#include "line_editor.h"
#include "quern/chat.h"

namespace quern::cli {

struct ReplOptions {
  SamplingOptions sampling;        ///< seed: of the first answer; each further one adds 1
  int n_predict = -1;
  std::vector<std::string> stop;
  bool ignore_end = false;
  bool hide_thinking = false;
  std::function<void()> after_answer;  ///< an answer (or its beginning) has just joined the conversation
};

class Repl {
 public:
  Repl(Engine& engine, Conversation& conversation, Console& console, std::atomic<bool>& interrupted, const ReplOptions& options)
      : engine_(engine), conversation_(conversation), console_(console), interrupted_(interrupted), options_(options) {}

  /// On a terminal, until the user leaves. Returns the exit status: 0, or 130 for two Ctrl-C at an empty prompt.
  int run_terminal();
  /// Piped input: one message a line, or all of it as one. Returns the exit status.
  int run_pipe(bool once);

  /// Sends a message (what /file brought in front of it) and shows the answer.
  void ask(const std::string& text);
  void regenerate();
  /// A line that begins with '/'. An unknown command is named. @throws Error
  void command(const std::string& line);

  /// A message that was taken back is in the terminal's next line already; what /file brought stands in front of it again.
  /// Returns whether it does.
  bool edit_again(const std::string& message);
  void attach(std::string text) { attached_ += std::move(text); }
  /// Takes away what attach() brought; false where there is nothing.
  bool detach() { return !std::exchange(attached_, {}).empty(); }
  void leave() { leaving_ = true; }
  /// A new seed counts from the next answer on.
  void restart_seed() { seed_base_ = n_answers_; }
  uint64_t next_seed() const { return options_.sampling.seed + (n_answers_ - seed_base_); }

  Engine& engine() { return engine_; }
  Conversation& conversation() { return conversation_; }
  Console& console() { return console_; }
  ReplOptions& options() { return options_; }
  const Timings& totals() const { return totals_; }
  size_t n_answers() const { return n_answers_; }

 private:
  /// One message from the terminal: a line, lines joined by trailing backslashes, or what stands between """ marks.
  LineEditor::End read_message(LineEditor& editor, std::string& text);
  void handle(const std::string& text);
  template <class Produce>
  Turn answer(const Produce& produce);
  TurnOptions turn_options(Progress& progress, bool& answer_began);
  void show_end(const Turn& turn);

  Engine& engine_;
  Conversation& conversation_;
  Console& console_;
  std::atomic<bool>& interrupted_;
  ReplOptions options_;
  Timings totals_;
  size_t n_answers_ = 0, seed_base_ = 0;
  std::string next_input_, attached_, last_attached_;
  bool leaving_ = false, folding_told_ = false;
};

/// What may stand in place of `before_cursor`: commands, their settings, file names.
std::vector<std::string> complete_input(const std::string& before_cursor);

}  // namespace quern::cli
