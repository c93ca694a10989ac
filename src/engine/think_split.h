// Tells a reasoning model's thinking (<think>…</think>) from its answer, in text that comes in pieces.
#pragma once
#include <functional>
#include <string>
#include <string_view>

namespace quern {

class ThinkSplit {
 public:
  using Sink = std::function<void(std::string_view text, bool thinking)>;

  /// `thinking`: the prompt has already opened the thinking. The marks themselves count as thinking.
  ThinkSplit(Sink sink, bool thinking) : sink_(std::move(sink)), thinking_(thinking) {}

  /// Text that may turn into a mark waits.
  void add(std::string_view text);
  void finish();

 private:
  void give(size_t n, bool thinking);

  Sink sink_;
  bool thinking_;
  std::string waiting_;
};

/// The prompt ends inside <think>: what is generated next is thinking.
bool opens_thinking(std::string_view prompt);

}  // namespace quern
