// Streamed text on a terminal, with lines broken between words. Code in ``` fences is left to the terminal, so that it can be copied.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace quern::cli {

/// Text comes in pieces, and what comes out is shown at once: of a word that turns out not to fit, what is on the screen already is
/// erased and written again on the next line. Widths are those of wcwidth(), so a UTF-8 locale has to be set.
class WordWrap {
 public:
  /// `text`: whole UTF-8 characters, no control characters but \n and \t. `columns`: of the terminal now; 0: unknown, nothing is broken.
  std::string feed(std::string_view text, size_t columns);
  /// The cursor is at the beginning of a line.
  void at_line_start();

 private:
  size_t column_ = 0;              ///< where the next character goes; equal to `columns` behind a full line
  size_t word_width_ = 0;          ///< columns of the word under way
  std::string word_;               ///< that word; empty after a blank
  std::string line_;               ///< the line's first characters without leading blanks, to know a fence
  bool in_code_ = false;
  bool break_due_ = false;         ///< a blank that has no room stands for the break before the next word
};

}  // namespace quern::cli
