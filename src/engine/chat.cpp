// A conversation as tokens: the template's own marks may become control tokens, what people wrote never does.
#include <fstream>
#include <sstream>

#include "base/check.h"
#include "engine/engine_impl.h"
#include "text/chat_format.h"

namespace quern {
namespace {

struct TemplateSource {
  std::string text, name;
};

std::string read_template_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  if (in) text << in.rdbuf();
  if (!in) throw_error(ErrorKind::kUsage, "--template '{}' is neither a built-in template ({}) nor a file that can be read", path, builtin_template_names());
  return text.str();
}

/// The named template, else the file's own.
TemplateSource choose_template(const gguf::Header& header, const std::string& name) {
  if (!name.empty()) {
    if (const BuiltinTemplate* built_in = find_builtin_template(name)) return {std::string(built_in->source), fmt::format("built-in {}", name)};
    return {read_template_file(name), fmt::format("file {}", name)};
  }
  if (const auto own = header.get_string("tokenizer.chat_template")) return {std::string(*own), "the model file's own"};
  throw_error(ErrorKind::kUsage, "this model has no chat template (a base model, perhaps): use --raw, or --template NAME with one of {} or a file", builtin_template_names());
}

std::string token_text(const Tokenizer& tokenizer, TokenId id) { return id == kNoToken ? std::string() : std::string(tokenizer.text(id)); }

}  // namespace

ChatPrompt Engine::chat_prompt(std::span<const ChatMessage> messages, const std::string& template_name) const {
  const Tokenizer& tokenizer = *impl_->model.tokenizer;
  const TemplateSource source = choose_template(impl_->model.file.header(), template_name);
  TemplateInputs inputs;
  for (const ChatMessage& message : messages) inputs.messages.push_back({{"role", message.role}, {"content", message.content}});
  inputs.bos_token = token_text(tokenizer, tokenizer.bos());
  inputs.eos_token = token_text(tokenizer, tokenizer.eos());

  const RenderedConversation rendered = render_conversation(ChatTemplate(source.text), inputs);
  ChatPrompt prompt;
  prompt.template_name = source.name;
  prompt.system_folded = rendered.system_folded;
  std::vector<ByteRange> plain;
  for (const RenderedPiece& piece : rendered.pieces) {
    if (piece.from_user) plain.push_back({prompt.text.size(), prompt.text.size() + piece.text.size()});
    prompt.text += piece.text;
  }
  prompt.tokens = tokenizer.encode(prompt.text, {.add_special = true, .parse_special = true, .single_bos = true, .plain = plain});
  return prompt;
}

}  // namespace quern
