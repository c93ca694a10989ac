// What chat and run build on a template: the built-in templates, and rendering that never loses a system prompt. Knows
// the form of messages, but neither tokens nor models.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat_template.h"

namespace quern {

struct BuiltinTemplate {
  std::string_view name;
  std::string_view source;  ///< Jinja
};

std::span<const BuiltinTemplate> builtin_templates();
/// nullptr if there is none of that name.
const BuiltinTemplate* find_builtin_template(std::string_view name);
/// @throws Error(kUsage) naming the choices.
const BuiltinTemplate& builtin_template(std::string_view name);
/// "chatml, llama3, …": for messages and help.
std::string builtin_template_names();

struct RenderedConversation {
  std::vector<RenderedPiece> pieces;
  bool system_folded = false;  ///< the template has no place for a system prompt: it stands in the first user turn
  std::string text() const;
};

/// Renders a conversation whose system prompt must not get lost. Where the template refuses the leading system
/// messages, or leaves their text out, that text is put in front of the first user message (which is made if there is
/// none).
/// @throws what render_pieces throws, if folding does not help either.
RenderedConversation render_conversation(const ChatTemplate& chat_template, const TemplateInputs& inputs);

}  // namespace quern
