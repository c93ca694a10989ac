// Output that comes in pieces of arbitrary bytes, given out as whole characters: a token may end in the middle of one.
#pragma once
#include <string>
#include <string_view>

namespace quern {

class Utf8Stream {
 public:
  /// Takes the next bytes and gives back what can be shown by now: valid UTF-8, U+FFFD for bytes that can never become
  /// a character. Up to three bytes of an unfinished character wait for the next call.
  std::string push(std::string_view bytes);
  /// The end: what is still waiting, as U+FFFD.
  std::string finish();

 private:
  std::string waiting_;
};

}  // namespace quern
