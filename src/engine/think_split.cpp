// One mark is looked for at a time: the one that would change the state.
#include "engine/think_split.h"

#include <algorithm>

namespace quern {
namespace {

constexpr std::string_view kOpen = "<think>", kClose = "</think>";

/// Bytes at the end of `text` that are the beginning of `mark`.
size_t begun(std::string_view text, std::string_view mark) {
  for (size_t n = std::min(mark.size() - 1, text.size()); n > 0; --n) {
    if (text.substr(text.size() - n) == mark.substr(0, n)) return n;
  }
  return 0;
}

}  // namespace

void ThinkSplit::give(size_t n, bool thinking) {
  if (n > 0 && sink_) sink_(std::string_view(waiting_).substr(0, n), thinking);
  waiting_.erase(0, n);
}

void ThinkSplit::add(std::string_view text) {
  waiting_ += text;
  for (;;) {
    const std::string_view mark = thinking_ ? kClose : kOpen;
    const size_t at = waiting_.find(mark);
    if (at == std::string::npos) break;
    give(thinking_ ? at + mark.size() : at, thinking_);
    thinking_ = !thinking_;
  }
  give(waiting_.size() - begun(waiting_, thinking_ ? kClose : kOpen), thinking_);
}

void ThinkSplit::finish() { give(waiting_.size(), thinking_); }

bool opens_thinking(std::string_view prompt) {
  const size_t open = prompt.rfind(kOpen), close = prompt.rfind(kClose);
  if (open == std::string_view::npos || (close != std::string_view::npos && close > open)) return false;
  return prompt.find_first_not_of(" \n", open + kOpen.size()) == std::string_view::npos;
}

}  // namespace quern
