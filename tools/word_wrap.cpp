// What is erased is always one word of narrow characters: those are what terminals agree on.
#include "word_wrap.h"

#include <fmt/format.h>
#include <wchar.h>

#include <algorithm>

#include "base/utf8.h"

namespace quern::cli {
namespace {

constexpr std::string_view kFence = "```";
constexpr size_t kTab = 8;

/// Emoji, arrows and their joiners: wide in one terminal and narrow in another.
bool has_doubtful_width(uint32_t c) { return (c >= 0x2190 && c < 0x2c00) || (c >= 0xfe00 && c < 0xfe10) || c == 0x200d || c >= 0x1f000; }

}  // namespace

void WordWrap::at_line_start() {
  column_ = word_width_ = 0;
  break_due_ = false;
  word_.clear();
  line_.clear();
}

std::string WordWrap::feed(std::string_view text, size_t columns) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = utf8_decode(text, at);
    const std::string_view bytes = text.substr(at, c.n_bytes);
    at += c.n_bytes;
    if (c.code_point == '\n') {
      if (line_ == kFence) in_code_ = !in_code_;
      at_line_start();
      out += '\n';
      continue;
    }
    const bool blank = c.code_point == ' ' || c.code_point == '\t';
    if (line_.size() < kFence.size() && !(blank && line_.empty())) line_ += bytes;
    const size_t width = c.code_point == '\t' ? std::min(kTab - column_ % kTab, columns - std::min(column_, columns)) : size_t(std::max(0, ::wcwidth(wchar_t(c.code_point))));
    const bool wraps = columns > 0 && !in_code_ && line_ != kFence;
    if (columns > 0 && column_ + width > columns) {  // the window may have become narrower, too
      if (wraps && blank && column_ <= columns) {  // the break is in place of the blank
        break_due_ = true;
        word_width_ = 0;
        word_.clear();
        continue;
      }
      if (break_due_) {
        out += '\n';
        break_due_ = false;
        column_ = 0;
      } else if (wraps && word_width_ > 0 && word_width_ < std::min(column_, columns) && column_ <= columns) {
        // Not so many columns back: behind a full line, terminals count them from different places.
        out += fmt::format("\x1b[{}G\x1b[K\n", column_ - word_width_ + 1) + word_;
        column_ = word_width_;
      } else {
        column_ = 0;
      }
    }
    out += bytes;
    column_ += width;
    if (blank || width > 1 || has_doubtful_width(c.code_point)) {
      word_.clear();
      word_width_ = 0;
    } else {
      word_ += bytes;
      word_width_ += width;
    }
  }
  return out;
}

}  // namespace quern::cli
