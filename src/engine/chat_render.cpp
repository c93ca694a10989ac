// Which template, and what it makes of a conversation.
#include "engine/chat_render.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/check.h"
#include "text/chat_format.h"

namespace quern {
namespace {

std::string read_template_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  if (in) text << in.rdbuf();
  if (!in || std::filesystem::is_directory(path)) throw_error(ErrorKind::kUsage, "--template '{}' is neither a built-in template ({}) nor a file that can be read", path, builtin_template_names());
  return text.str();
}

std::string token_text(const Tokenizer& tokenizer, TokenId id) { return id == kNoToken ? std::string() : std::string(tokenizer.text(id)); }

std::tm local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm out{};
  localtime_r(&now, &out);
  return out;
}

}  // namespace

ChatRenderer::Source ChatRenderer::choose(const Model& model, const std::string& name) {
  if (!name.empty()) {
    if (const BuiltinTemplate* built_in = find_builtin_template(name)) return {std::string(built_in->source), fmt::format("built-in {}", name)};
    return {read_template_file(name), fmt::format("file {}", name)};
  }
  if (const auto own = model.file.header().get_string("tokenizer.chat_template")) return {std::string(*own), "the model file's own"};
  throw_error(ErrorKind::kUsage, "this model has no chat template (a base model, perhaps): give --template NAME with one of {} or a file, or use quern run --raw", builtin_template_names());
}

ChatRenderer::ChatRenderer(const Model& model, const std::string& template_name) : ChatRenderer(model, choose(model, template_name)) {}

ChatRenderer::ChatRenderer(const Model& model, Source source)
    : model_(model), name_(std::move(source.name)), template_(source.text), has_thinking_switch_(source.text.find("enable_thinking") != std::string::npos), now_(local_time()) {}

RenderedChat ChatRenderer::render(std::span<const ChatMessage> messages, std::optional<bool> thinking) const {
  TemplateInputs inputs;
  for (const ChatMessage& message : messages) inputs.messages.push_back({{"role", message.role}, {"content", message.content}});
  if (thinking) inputs.extra["enable_thinking"] = *thinking;
  inputs.bos_token = token_text(*model_.tokenizer, model_.tokenizer->bos());
  inputs.eos_token = token_text(*model_.tokenizer, model_.tokenizer->eos());
  inputs.now = now_;

  const RenderedConversation rendered = render_conversation(template_, inputs);
  RenderedChat chat;
  chat.system_folded = rendered.system_folded;
  for (const RenderedPiece& piece : rendered.pieces) {
    if (piece.from_user) chat.plain.push_back({chat.text.size(), chat.text.size() + piece.text.size()});
    chat.text += piece.text;
  }
  return chat;
}

}  // namespace quern
