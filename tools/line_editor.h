// One edited line at a time on a terminal: libedit with wide characters, history in a file of its owner's alone, bracketed paste,
// Tab completion, and signals that are noticed at once. Knows nothing of conversations.
#pragma once
#include <histedit.h>
#include <termios.h>

#include <atomic>
#include <functional>
#include <string>
#include <vector>

namespace quern::cli {

class LineEditor {
 public:
  enum class End { kLine, kInterrupt, kEndOfInput };
  /// The texts that may stand in place of everything before the cursor.
  using Complete = std::function<std::vector<std::string>(const std::string& before_cursor)>;

  /// `history_file`: empty for none; made, with its folders, when the first line is remembered.
  LineEditor(std::string history_file, std::atomic<bool>& interrupted, const std::atomic<int>& ending, Complete complete);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  /// Reads a line (without its line break; a pasted text may hold line breaks of its own). `initial` stands in it already.
  /// On kInterrupt `line` is what stood in it. `ending` counts as an interrupt that nothing clears.
  End read(const std::string& prompt, const std::string& initial, std::string& line);
  void remember(const std::string& text);

 private:
  static int next_char(EditLine* editor, wchar_t* out);
  static unsigned char on_paste(EditLine* editor, int key);
  static unsigned char on_tab(EditLine* editor, int key);
  static unsigned char on_end_of_input(EditLine* editor, int key);
  int read_byte();
  int read_char(wchar_t& out);
  void insert(const std::string& text);
  std::string compact(const std::string& text);
  std::string compact_for_editing(const std::string& text);
  void draw_again();
  std::string expand(const std::string& line) const;
  void load_history();

  const std::string history_file_;
  std::atomic<bool>& interrupted_;
  const std::atomic<int>& ending_;
  const Complete complete_;
  EditLine* editor_;
  HistoryW* history_;
  std::wstring prompt_;
  std::string initial_, abandoned_;
  bool was_interrupted_ = false;
  std::vector<std::pair<std::string, std::string>> folded_;  ///< what stands in the line, the long text it stands for
};

/// The terminal as a conversation wants it, from before the model is loaded: what is typed or pasted meanwhile is not echoed into
/// the output, waits for the next line, and keeps the marks of a paste. As it was before at the end; signal handlers that end the
/// program restore it too (interrupt.cpp).
class ChatTerminal {
 public:
  ChatTerminal();
  ~ChatTerminal();
  ChatTerminal(const ChatTerminal&) = delete;
  ChatTerminal& operator=(const ChatTerminal&) = delete;

 private:
  termios before_{};
  bool changed_ = false;
};

/// XDG_STATE_HOME or ~/.local/state, then quern/history; empty where there is no home.
std::string default_history_file();

}  // namespace quern::cli
