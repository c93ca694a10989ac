// A conversation to the text that the model reads, with what people wrote kept apart from the template's own marks. Knows
// templates and the tokenizer of a model, but neither sessions nor caches.
#pragma once
#include <ctime>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/model.h"
#include "quern/engine.h"
#include "text/chat_template.h"

namespace quern {

struct RenderedChat {
  std::string text;
  std::vector<ByteRange> plain;  ///< ascending: what people wrote; control tokens do not count in there
  bool system_folded = false;
};

class ChatRenderer {
 public:
  /// The template named (a built-in one or a file), else the model file's own. Its clock stands still from here on, so that a
  /// template that shows the time does not change the past.
  /// @throws Error(kUsage) when there is none (the choices are named), Error(kModel) when it cannot be parsed.
  ChatRenderer(const Model& model, const std::string& template_name);

  /// @throws what the template raises.
  RenderedChat render(std::span<const ChatMessage> messages, std::optional<bool> thinking = {}) const;
  const std::string& name() const { return name_; }
  /// The template has a switch for thinking (enable_thinking).
  bool has_thinking_switch() const { return has_thinking_switch_; }

 private:
  struct Source {
    std::string text, name;
  };
  ChatRenderer(const Model& model, Source source);
  static Source choose(const Model& model, const std::string& template_name);

  const Model& model_;
  std::string name_;
  ChatTemplate template_;
  bool has_thinking_switch_;
  std::tm now_{};
};

}  // namespace quern
