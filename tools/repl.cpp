// The loop around messages, commands and answers.
#include "repl.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <utility>

#include "base/utf8.h"
#include "interrupt.h"
#include "report_text.h"

namespace quern::cli {
namespace {

constexpr std::string_view kPrompt = "> ", kMorePrompt = ". ", kQuotes = "\"\"\"";

double per_second(size_t n, double ms) { return ms > 0 ? double(n) * 1000.0 / ms : 0.0; }

std::string stats_line(const TurnStats& stats, const Session& session) {
  std::string line = fmt::format("[prefill {}, {:.0f}/s; re-used {}; decode {}, {:.0f}/s; context {}", counted(stats.prefill_tokens, "token"), per_second(stats.prefill_tokens, stats.prefill_ms),
                                 with_commas(stats.reused_tokens), counted(stats.decode_tokens, "token"), per_second(stats.decode_tokens, stats.decode_ms), context_text(session.tokens().size(), session));
  if (stats.reread_tokens) line += fmt::format("; {} known tokens read again, because the window's cache cannot go back that far", with_commas(stats.reread_tokens));
  return line + "]";
}

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\n") == std::string_view::npos; }

/// A line of standard input, or all of it. False at its end, or when interrupted.
bool read_bytes(std::string& out, bool one_line, const std::atomic<bool>& interrupted) {
  for (char byte; !interrupted;) {
    const ssize_t n = ::read(STDIN_FILENO, &byte, 1);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return !out.empty();
    if (one_line && byte == '\n') return true;
    out += byte;
  }
  return false;
}

}  // namespace

TurnOptions Repl::turn_options(Progress& progress, bool& answer_began) {
  TurnOptions turn;
  turn.n_predict = options_.n_predict;
  turn.sampling = options_.sampling;
  turn.sampling.seed = next_seed();
  turn.stop = options_.stop;
  turn.ignore_end = options_.ignore_end;
  turn.cancelled = &interrupted_;
  turn.on_prefill = [&progress, start = std::chrono::steady_clock::now()](size_t done, size_t total) {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const std::string left = done > 0 && done < total ? fmt::format(", {:.0f} s left", std::ceil(seconds * double(total - done) / double(done))) : "";
    progress.update(fmt::format("reading the prompt: {} of {} tokens{}", with_commas(done), with_commas(total), left));
  };
  turn.on_trim = [this, &progress](size_t n) {
    progress.stop();
    console_.note(fmt::format("[the context is full: the {} left it; /context shows what is left]", n == 1 ? "oldest turn" : counted(n, "oldest turn")));
  };
  turn.on_text = [this, &progress, &answer_began](std::string_view text, bool thinking) {
    progress.stop();
    if (thinking && options_.hide_thinking) {
      progress.update("thinking");
      return;
    }
    // What stands between the thinking and the answer is a blank line of no use on its own.
    if (options_.hide_thinking && !answer_began) text.remove_prefix(std::min(text.find_first_not_of('\n'), text.size()));
    answer_began = answer_began || !text.empty();
    console_.answer(utf8_repair(text), thinking);
  };
  return turn;
}

void Repl::show_end(const Turn& turn) {
  if (conversation_.system_folded() && !std::exchange(folding_told_, true)) console_.note("[this template has no system role: the system prompt went into the first user turn]");
  if (!turn.kept) console_.note("[interrupted before the answer began; the message was not kept]");
  else if (turn.reason == FinishReason::kInterrupted) console_.note("[interrupted; what is there stays in the conversation: /regen for another answer, /undo to take it back]");
  else if (turn.reason == FinishReason::kLength) console_.note(fmt::format("[cut after {} tokens, as -n or /set max says]", turn.stats.decode_tokens));
  else if (turn.reason == FinishReason::kContext) console_.note(fmt::format("[the context of {} tokens is full: the answer is cut; /clear, /undo, or a larger -c]", with_commas(conversation_.session().n_ctx())));
  console_.note(stats_line(turn.stats, conversation_.session()));
}

template <class Produce>
Turn Repl::answer(const Produce& produce) {
  Progress progress(console_.err_is_terminal() && !console_.quiet());
  bool answer_began = false;
  interrupted_ = ending_signal() != 0;
  Turn turn;
  try {
    turn = produce(turn_options(progress, answer_began));
  } catch (...) {
    progress.stop();
    if (answer_began) {
      console_.end_answer();
      console_.note("[neither the message nor this part of its answer was kept, for the reason below]");
    }
    throw;
  }
  progress.stop();
  if (turn.kept) console_.end_answer();
  ++n_answers_;
  totals_.prefill_tokens += turn.stats.prefill_tokens;
  totals_.reused_tokens += turn.stats.reused_tokens;
  totals_.decode_tokens += turn.stats.decode_tokens;
  totals_.prefill_ms += turn.stats.prefill_ms;
  totals_.decode_ms += turn.stats.decode_ms;
  show_end(turn);
  if (turn.kept && options_.after_answer && !ending_signal()) options_.after_answer();
  return turn;
}

void Repl::ask(const std::string& text) {
  // A file goes with this one message, whatever becomes of it: one that is too long would be in front of every further message.
  const std::string file = std::exchange(attached_, {}), message = file + text;
  try {
    if (answer([&](const TurnOptions& turn) { return conversation_.ask(message, turn); }).kept) {
      if (!file.empty()) last_attached_ = file;
    } else if (!file.empty()) {
      console_.note("[nor was the text of /file]");
    }
  } catch (const Error&) {
    if (!file.empty()) console_.note("[the text of /file is put away with this message]");
    throw;
  }
}

bool Repl::edit_again(const std::string& message) {
  const bool has_file = !last_attached_.empty() && message.starts_with(last_attached_);
  if (has_file) attached_ += last_attached_;
  next_input_ = message.substr(has_file ? last_attached_.size() : 0);
  return has_file;
}

void Repl::regenerate() {
  answer([&](const TurnOptions& turn) { return conversation_.regenerate(turn); });
}

void Repl::handle(const std::string& text) {
  if (text.starts_with("//")) return ask(text.substr(1));
  if (text.starts_with('/')) return command(text);
  ask(text);
}

LineEditor::End Repl::read_message(LineEditor& editor, std::string& text) {
  std::string line;
  LineEditor::End end = editor.read(std::string(kPrompt), std::exchange(next_input_, {}), line);
  text = line;
  if (end != LineEditor::End::kLine) return end;
  if (line.starts_with(kQuotes)) {
    text = line.substr(kQuotes.size());
    while (!text.ends_with(kQuotes)) {
      if ((end = editor.read(std::string(kMorePrompt), {}, line)) != LineEditor::End::kLine) {
        text.insert(0, kQuotes);
        return end;
      }
      text += (text.empty() ? "" : "\n") + line;
    }
    text.resize(text.size() - kQuotes.size());
    while (text.ends_with('\n')) text.pop_back();
    return end;
  }
  while (text.ends_with('\\')) {
    text.back() = '\n';
    if ((end = editor.read(std::string(kMorePrompt), {}, line)) != LineEditor::End::kLine) return end;
    text += line;
  }
  return end;
}

int Repl::run_terminal() {
  LineEditor editor(default_history_file(), interrupted_, ending_signal(), complete_input);
  int n_interrupts = 0;
  while (!leaving_) {
    std::string text;
    const LineEditor::End end = read_message(editor, text);
    if (ending_signal()) break;
    if (end == LineEditor::End::kEndOfInput) return 0;
    if (end == LineEditor::End::kInterrupt) {
      if (!text.empty()) {  // a line that was given up
        n_interrupts = 0;
        continue;
      }
      if (++n_interrupts == 2) return 130;
      console_.note("[Ctrl-C once more, Ctrl-D or /exit to leave]");
      continue;
    }
    n_interrupts = 0;
    if (is_blank(text)) continue;
    editor.remember(text);
    try {
      handle(text);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kInterrupted) return error.exit_status();
      console_.error(error.what());
    }
    if (ending_signal()) break;
  }
  return ending_signal() ? 128 + ending_signal() : 0;
}

int Repl::run_pipe(bool once) {
  int status = 0;
  while (!leaving_) {
    std::string text;
    if (!read_bytes(text, !once, interrupted_)) break;
    if (!once && text.ends_with('\r')) text.pop_back();
    if (is_blank(text)) continue;
    try {
      once ? ask(text) : handle(text);
    } catch (const Error& error) {
      console_.error(error.what());
      status = error.exit_status();
    }
    if (interrupted_) break;
  }
  return ending_signal() ? 128 + ending_signal() : interrupted_ ? 130 : status;
}

}  // namespace quern::cli
