// A conversation as tokens: the template's own marks may become control tokens, what people wrote never does.
#include "base/check.h"
#include "engine/engine_impl.h"

namespace quern {

ChatPrompt Engine::chat_prompt(std::span<const ChatMessage>, const std::string&) const {
  throw_error(ErrorKind::kUsage, "chat templates are not built in yet; use --raw");
}

}  // namespace quern
