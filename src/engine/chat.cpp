// A conversation as tokens: the template's own marks may become control tokens, what people wrote never does.
#include "engine/chat_render.h"
#include "engine/engine_impl.h"

namespace quern {

ChatPrompt Engine::chat_prompt(std::span<const ChatMessage> messages, const std::string& template_name) const {
  const ChatRenderer renderer(impl_->model, template_name);
  RenderedChat rendered = renderer.render(messages);
  ChatPrompt prompt;
  prompt.template_name = renderer.name();
  prompt.system_folded = rendered.system_folded;
  prompt.tokens = impl_->model.tokenizer->encode(rendered.text, {.add_special = true, .parse_special = true, .single_bos = true, .continues = false, .plain = rendered.plain});
  prompt.text = std::move(rendered.text);
  return prompt;
}

}  // namespace quern
