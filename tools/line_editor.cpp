// libedit reads its characters through us, so that a signal, a resize or the bytes of a paste arrive where they should.
#include "line_editor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <langinfo.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <clocale>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <utility>

#include "base/utf8.h"

namespace quern::cli {
namespace {

constexpr int kHistoryEntries = 1000;
/// A longer text stands in the line as a short mark; libedit cannot show more lines than the screen has.
constexpr size_t kMostLines = 6, kMostBytes = 2000;
constexpr std::string_view kPasteEnd = "\x1b[201~";

volatile sig_atomic_t window_changed = 0;
void on_window_change(int) { window_changed = 1; }

size_t count_lines(std::string_view text) { return size_t(std::count(text.begin(), text.end(), '\n')) + 1; }
bool is_short(std::string_view text) { return text.size() <= kMostBytes && count_lines(text) <= kMostLines; }

std::wstring to_wide(std::string_view text) {
  std::wstring out;
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = utf8_decode(text, at);
    out += wchar_t(c.code_point);
    at += c.n_bytes;
  }
  return out;
}

std::string to_utf8(std::wstring_view text) {
  std::string out;
  for (const wchar_t c : text) utf8_append(out, uint32_t(c));
  return out;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '\n' ? std::string("\\n") : c == '\\' ? std::string("\\\\") : std::string(1, c);
  return out;
}

std::string unescaped(std::string_view line) {
  std::string out;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\\' && i + 1 < line.size()) out += line[++i] == 'n' ? '\n' : line[i];
    else out += line[i];
  }
  return out;
}

/// libedit measures and writes characters by the locale; without a UTF-8 one, wide characters would be garbled.
void use_utf8_locale() {
  std::setlocale(LC_CTYPE, "");
  if (std::string_view(nl_langinfo(CODESET)) != "UTF-8") std::setlocale(LC_CTYPE, "C.UTF-8");
}

/// A window that was closed cannot be written to; that is no reason to throw, least of all on the way out.
void write_to_terminal(const std::string& text) {
  std::FILE* out = ::isatty(STDOUT_FILENO) ? stdout : stderr;
  if (std::fputs(text.c_str(), out) < 0 || std::fflush(out) != 0) std::clearerr(out);
}

LineEditor* self(EditLine* editor) {
  void* data = nullptr;
  el_wget(editor, EL_CLIENTDATA, &data);
  return static_cast<LineEditor*>(data);
}

std::string common_prefix(const std::vector<std::string>& texts) {
  std::string prefix = texts.front();
  for (const std::string& text : texts) prefix.resize(size_t(std::mismatch(prefix.begin(), prefix.end(), text.begin(), text.end()).first - prefix.begin()));
  return prefix;
}

}  // namespace

LineEditor::LineEditor(std::string history_file, std::atomic<bool>& interrupted, const std::atomic<int>& ending, Complete complete)
    : history_file_(std::move(history_file)), interrupted_(interrupted), ending_(ending), complete_(std::move(complete)) {
  use_utf8_locale();
  editor_ = el_init("quern", stdin, ::isatty(STDOUT_FILENO) ? stdout : stderr, stderr);
  history_ = history_winit();
  HistEventW event;
  history_w(history_, &event, H_SETSIZE, kHistoryEntries);
  history_w(history_, &event, H_SETUNIQUE, 1);
  el_wset(editor_, EL_CLIENTDATA, this);
  el_wset(editor_, EL_HIST, history_w, history_);
  el_wset(editor_, EL_EDITOR, L"emacs");
  el_wset(editor_, EL_SIGNAL, 0);
  // Between two lines libedit turns echo and line mode on, whatever they were before. CR and LF are exchanged there as while editing:
  // what is pasted then, or as the prompt appears, keeps the two apart (see on_paste).
  el_wset(editor_, EL_SETTY, L"-x", L"-echo", L"-icanon", L"+inlcr", nullptr);
  el_wset(editor_, EL_PROMPT, +[](EditLine* e) { return self(e)->prompt_.data(); });
  el_wset(editor_, EL_GETCFN, &LineEditor::next_char);
  el_wset(editor_, EL_ADDFN, L"quern-paste", L"Insert a bracketed paste", &LineEditor::on_paste);
  el_wset(editor_, EL_ADDFN, L"quern-complete", L"Complete the line", &LineEditor::on_tab);
  el_wset(editor_, EL_ADDFN, L"quern-end", L"Delete the next character, or end the input of an empty line", &LineEditor::on_end_of_input);
  for (const auto& [key, function] : {std::pair{L"\\e[200~", L"quern-paste"}, {L"^I", L"quern-complete"}, {L"^D", L"quern-end"}, {L"^R", L"em-inc-search-prev"},
                                      {L"\\e[3~", L"ed-delete-next-char"}, {L"\\e[1~", L"ed-move-to-beg"}, {L"\\e[4~", L"ed-move-to-end"}, {L"\\e[H", L"ed-move-to-beg"},
                                      {L"\\e[F", L"ed-move-to-end"}, {L"\\e[1;5C", L"em-next-word"}, {L"\\e[1;5D", L"ed-prev-word"}}) {
    el_wset(editor_, EL_BIND, key, function, nullptr);
  }
  struct sigaction action = {};
  action.sa_handler = on_window_change;
  ::sigaction(SIGWINCH, &action, nullptr);
  load_history();
}

LineEditor::~LineEditor() {
  history_wend(history_);
  el_end(editor_);
}

/// One byte, or −1 with was_interrupted_ set or not (the input has ended).
int LineEditor::read_byte() {
  sigset_t watched, before;
  sigemptyset(&watched);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGWINCH}) sigaddset(&watched, signal);
  // Signals are let in while waiting and at no other moment, so that none slips in between the check and the wait.
  pthread_sigmask(SIG_BLOCK, &watched, &before);
  int result = -1;
  for (;;) {
    if (interrupted_.exchange(false) || ending_) {
      was_interrupted_ = true;
      break;
    }
    if (window_changed) {
      window_changed = 0;
      el_resize(editor_);
      draw_again();
    }
    pollfd input{STDIN_FILENO, POLLIN, 0};
    if (::ppoll(&input, 1, nullptr, &before) < 0) {
      if (errno == EINTR) continue;
      break;
    }
    unsigned char byte = 0;
    const ssize_t n = ::read(STDIN_FILENO, &byte, 1);
    if (n < 0 && errno == EINTR) continue;
    if (n == 1) result = byte;
    break;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return result;
}

int LineEditor::read_char(wchar_t& out) {
  int byte = read_byte();
  if (byte < 0) return was_interrupted_ ? -1 : 0;
  std::string bytes(1, char(byte));
  while (utf8_incomplete_tail(bytes) > 0 && (byte = read_byte()) >= 0) bytes += char(byte);
  out = wchar_t(utf8_decode(bytes, 0).code_point);
  return 1;
}

int LineEditor::next_char(EditLine* editor, wchar_t* out) {
  LineEditor& me = *self(editor);
  if (!me.initial_.empty()) {
    el_winsertstr(editor, to_wide(me.compact_for_editing(std::exchange(me.initial_, {}))).c_str());
    me.draw_again();
  }
  int n = me.read_char(*out);
  if (n == 1 && *out == 3) {  // Ctrl-C of a terminal that sends no signal
    me.was_interrupted_ = true;
    n = -1;
  }
  if (me.was_interrupted_) {
    const LineInfoW* line = el_wline(editor);
    me.abandoned_ = to_utf8({line->buffer, size_t(line->lastchar - line->buffer)});
  }
  return n;
}

unsigned char LineEditor::on_paste(EditLine* editor, int) {
  LineEditor& me = *self(editor);
  std::string text;
  int half_break = 0;
  while (!text.ends_with(kPasteEnd)) {
    const int byte = me.read_byte();
    if (byte < 0) return CC_EOF;
    const bool is_break = byte == '\n' || byte == '\r';
    // Terminals send a line break as CR, LF or both, and libedit has the two exchanged on the way.
    if (is_break && half_break != 0 && byte != half_break) {
      half_break = 0;
      continue;
    }
    half_break = is_break ? byte : 0;
    text += is_break ? '\n' : char(byte);
  }
  text.resize(text.size() - kPasteEnd.size());
  while (text.ends_with('\n')) text.pop_back();
  me.insert(text);
  return CC_REFRESH;
}

unsigned char LineEditor::on_tab(EditLine* editor, int) {
  LineEditor& me = *self(editor);
  const LineInfoW* line = el_wline(editor);
  const std::string before = to_utf8({line->buffer, size_t(line->cursor - line->buffer)});
  const std::vector<std::string> texts = me.complete_ ? me.complete_(before) : std::vector<std::string>();
  if (texts.empty()) return CC_REFRESH_BEEP;
  const std::string prefix = common_prefix(texts);
  if (prefix.size() > before.size()) {
    me.insert(prefix.substr(before.size()));
    return CC_REFRESH;
  }
  std::string list = "\n";
  for (const std::string& text : texts) list += text + "  ";
  write_to_terminal(list + "\n");
  return CC_REDISPLAY;
}

unsigned char LineEditor::on_end_of_input(EditLine* editor, int) {
  const LineInfoW* line = el_wline(editor);
  if (line->lastchar == line->buffer) return CC_EOF;
  if (line->cursor == line->lastchar) return CC_REFRESH_BEEP;
  el_cursor(editor, 1);
  el_wdeletestr(editor, 1);
  return CC_REFRESH;
}

void LineEditor::insert(const std::string& text) { el_winsertstr(editor_, to_wide(compact(text)).c_str()); }

std::string LineEditor::compact(const std::string& text) {
  if (is_short(text)) return text;
  for (const auto& [mark, original] : folded_) {
    if (original == text) return mark;
  }
  const size_t n_lines = count_lines(text);
  folded_.emplace_back(fmt::format("[text {}: {} line{}, {} bytes]", folded_.size() + 1, n_lines, n_lines == 1 ? "" : "s", text.size()), text);
  return folded_.back().first;
}

/// A text that was sent before: the pastes in it become marks again, and of what is still long all but its last line, where a
/// question stands as a rule. What is likely to be changed stays open to change.
std::string LineEditor::compact_for_editing(const std::string& text) {
  std::string out = text;
  for (const auto& [mark, original] : folded_) {
    for (size_t at = 0; (at = out.find(original, at)) != std::string::npos; at += mark.size()) out.replace(at, original.size(), mark);
  }
  if (is_short(out)) return out;
  const size_t last_break = out.rfind('\n');
  const bool can_keep_last = last_break != std::string::npos && last_break + 1 < out.size() && out.size() - last_break <= kMostBytes;
  const size_t fold_end = can_keep_last ? last_break : out.size();
  return compact(expand(out.substr(0, fold_end))) + out.substr(fold_end);
}

/// libedit draws from where the cursor is, and takes that for the beginning of the line.
void LineEditor::draw_again() {
  write_to_terminal("\r\x1b[J");
  el_wset(editor_, EL_REFRESH);
}

std::string LineEditor::expand(const std::string& line) const {
  std::string out = line;
  for (const auto& [mark, original] : folded_) {
    for (size_t at = 0; (at = out.find(mark, at)) != std::string::npos; at += original.size()) out.replace(at, mark.size(), original);
  }
  return out;
}

LineEditor::End LineEditor::read(const std::string& prompt, const std::string& initial, std::string& line) {
  prompt_ = to_wide(prompt);
  initial_ = initial;
  was_interrupted_ = false;
  interrupted_ = false;
  int n = 0;
  const wchar_t* text = el_wgets(editor_, &n);
  const bool complete = text && n > 0 && text[n - 1] == L'\n';
  if (!complete) {
    write_to_terminal("\n");
    el_reset(editor_);
    line = std::exchange(abandoned_, {});
    return was_interrupted_ ? End::kInterrupt : End::kEndOfInput;
  }
  line = expand(to_utf8({text, size_t(n - 1)}));
  return End::kLine;
}

void LineEditor::remember(const std::string& text) {
  HistEventW event;
  history_w(history_, &event, H_ENTER, to_wide(compact_for_editing(text)).c_str());
  if (history_file_.empty()) return;
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(history_file_).parent_path(), ignored);
  const int fd = ::open(history_file_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) return;
  ::fchmod(fd, 0600);
  const std::string entry = escaped(text) + "\n";
  if (::write(fd, entry.data(), entry.size()) < 0) errno = 0;  // a history that cannot be kept is no reason to stop
  ::close(fd);
}

void LineEditor::load_history() {
  std::ifstream in(history_file_);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  const size_t first = lines.size() > size_t(kHistoryEntries) ? lines.size() - size_t(kHistoryEntries) : 0;
  HistEventW event;
  for (size_t i = first; i < lines.size(); ++i) history_w(history_, &event, H_ENTER, to_wide(compact_for_editing(unescaped(lines[i]))).c_str());
  if (first == 0) return;
  // Old entries go, so that the file does not grow for ever.
  std::ofstream out(history_file_, std::ios::trunc);
  for (size_t i = first; i < lines.size(); ++i) out << lines[i] << '\n';
}

ChatTerminal::ChatTerminal() {
  if (!::isatty(STDIN_FILENO) || ::tcgetattr(STDIN_FILENO, &before_) != 0) return;
  termios quiet = before_;
  quiet.c_lflag &= ~tcflag_t(ECHO | ICANON);
  quiet.c_iflag |= ICRNL | INLCR;  // as the editor will have it
  changed_ = ::tcsetattr(STDIN_FILENO, TCSANOW, &quiet) == 0;
  if (changed_) write_to_terminal("\x1b[?2004h");
}

ChatTerminal::~ChatTerminal() {
  if (!changed_) return;
  write_to_terminal("\x1b[?2004l");
  ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
}

std::string default_history_file() {
  const char* state = std::getenv("XDG_STATE_HOME");
  if (state && *state == '/') return std::string(state) + "/quern/history";
  const char* home = std::getenv("HOME");
  return home && *home ? std::string(home) + "/.local/state/quern/history" : std::string();
}

}  // namespace quern::cli
