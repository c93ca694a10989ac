// Built-in templates, and the system prompt that is never dropped.
#include "text/chat_format.h"

#include <algorithm>
#include <optional>

#include "base/check.h"

namespace quern {

using nlohmann::ordered_json;

namespace {

constexpr std::string_view kChatml = R"({%- for message in messages %}
{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\n' }}
{%- endif %})";

constexpr std::string_view kLlama3 = R"({{- bos_token }}
{%- for message in messages %}
{{- '<|start_header_id|>' + message.role + '<|end_header_id|>\n\n' + message.content | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
{%- endif %})";

constexpr std::string_view kGemma = R"({{- bos_token }}
{%- for message in messages %}
{%- if message.role == 'system' %}
{{- raise_exception('gemma has no system role') }}
{%- endif %}
{{- '<start_of_turn>' + ('model' if message.role == 'assistant' else message.role) + '\n' + message.content | trim + '<end_of_turn>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<start_of_turn>model\n' }}
{%- endif %})";

constexpr std::string_view kMistral = R"({{- bos_token }}
{%- for message in messages %}
{%- if message.role == 'system' %}
{{- raise_exception('mistral has no system role') }}
{%- elif message.role == 'assistant' %}
{{- ' ' + message.content | trim + eos_token }}
{%- else %}
{{- '[INST] ' + message.content | trim + ' [/INST]' }}
{%- endif %}
{%- endfor %})";

constexpr std::string_view kPhi3 = R"({%- for message in messages %}
{{- '<|' + message.role + '|>\n' + message.content + '<|end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|assistant|>\n' }}
{%- endif %})";

constexpr std::string_view kZephyr = R"({%- for message in messages %}
{{- '<|' + message.role + '|>\n' + message.content + eos_token + '\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|assistant|>\n' }}
{%- endif %})";

constexpr std::string_view kPlain = R"({{- bos_token }}
{%- for message in messages %}
{%- if message.role == 'system' %}
{{- message.content + '\n\n' }}
{%- else %}
{{- message.role | capitalize + ': ' + message.content + '\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
{{- 'Assistant:' }}
{%- endif %})";

constexpr BuiltinTemplate kTemplates[] = {
    {"chatml", kChatml}, {"llama3", kLlama3}, {"gemma", kGemma}, {"mistral", kMistral},
    {"phi3", kPhi3},     {"zephyr", kZephyr}, {"plain", kPlain},
};

bool is_system(const ordered_json& message) {
  if (!message.is_object() || !message.contains("role")) return false;
  return message["role"] == "system" || message["role"] == "developer";
}

/// A message's text: its content, or the text parts of its content.
std::string content_text(const ordered_json& message) {
  if (!message.contains("content")) return {};
  const ordered_json& content = message["content"];
  if (content.is_string()) return content.get<std::string>();
  std::string text;
  if (!content.is_array()) return text;
  for (const ordered_json& part : content) {
    if (part.is_object() && part.contains("text") && part["text"].is_string()) text += part["text"].get<std::string>();
  }
  return text;
}

void set_content(ordered_json& message, const std::string& text) {
  if (!message["content"].is_array()) {
    message["content"] = text;
    return;
  }
  message["content"] = ordered_json::array({{{"type", "text"}, {"text", text}}});
}

size_t n_system_messages(const ordered_json& messages) {
  size_t n = 0;
  while (messages.is_array() && n < messages.size() && is_system(messages[n])) ++n;
  return n;
}

/// The leading system messages' text in front of the first user message.
ordered_json folded(const ordered_json& messages) {
  const size_t n_system = n_system_messages(messages);
  std::string system;
  for (size_t i = 0; i < n_system; ++i) system += (i ? "\n\n" : "") + content_text(messages[i]);
  ordered_json out = ordered_json::array();
  for (size_t i = n_system; i < messages.size(); ++i) out.push_back(messages[i]);
  const auto user = std::find_if(out.begin(), out.end(), [](const ordered_json& m) {
    return m.is_object() && m.contains("role") && m["role"] == "user";
  });
  if (user == out.end()) {
    out.insert(out.begin(), ordered_json{{"role", "user"}, {"content", system}});
  } else if ((*user)["content"].is_array()) {
    auto& parts = (*user)["content"];
    parts.insert(parts.begin(), ordered_json{{"type", "text"}, {"text", system + "\n\n"}});
  } else {
    (*user)["content"] = system + "\n\n" + content_text(*user);
  }
  return out;
}

std::string lower_ascii(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
  return text;
}

std::string all_text(const std::vector<RenderedPiece>& pieces) {
  std::string text;
  for (const RenderedPiece& piece : pieces) text += piece.text;
  return text;
}

/// A word that no conversation holds by chance.
std::string probe_word(size_t i) {
  return "quernprobe" + std::to_string(i) + "z";
}

/// Whether the template prints what the system messages say: by looking for their text, and where it was changed on the
/// way (escaped, trimmed, parsed), by rendering them with a word that cannot be there by chance.
bool shows_system(const ChatTemplate& chat_template, const TemplateInputs& inputs, const std::string& rendered) {
  const size_t n_system = n_system_messages(inputs.messages);
  TemplateInputs probe = inputs;
  bool all_shown = true;
  for (size_t i = 0; i < n_system; ++i) {
    all_shown = all_shown && rendered.find(content_text(inputs.messages[i])) != std::string::npos;
    set_content(probe.messages[i], probe_word(i));
  }
  if (all_shown) return true;
  std::string probed;
  try {
    probed = lower_ascii(chat_template.render(probe));
  } catch (const Error&) {
    return false;
  }
  for (size_t i = 0; i < n_system; ++i) {
    if (probed.find(probe_word(i)) == std::string::npos) return false;
  }
  return true;
}

/// The conversation with its system prompt folded, unless the template refuses that or leaves the text out even so.
std::optional<RenderedConversation> try_folded(const ChatTemplate& chat_template, const TemplateInputs& inputs) {
  TemplateInputs changed = inputs, probe = inputs;
  for (size_t i = 0; i < n_system_messages(inputs.messages); ++i) set_content(probe.messages[i], probe_word(i));
  changed.messages = folded(inputs.messages);
  probe.messages = folded(probe.messages);
  try {
    const std::string probed = lower_ascii(chat_template.render(probe));
    for (size_t i = 0; i < n_system_messages(inputs.messages); ++i) {
      if (probed.find(probe_word(i)) == std::string::npos) return std::nullopt;
    }
    return RenderedConversation{chat_template.render_pieces(changed), true};
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

std::span<const BuiltinTemplate> builtin_templates() {
  return kTemplates;
}

const BuiltinTemplate* find_builtin_template(std::string_view name) {
  const auto it = std::find_if(std::begin(kTemplates), std::end(kTemplates),
                               [&](const BuiltinTemplate& row) { return row.name == name; });
  return it == std::end(kTemplates) ? nullptr : it;
}

const BuiltinTemplate& builtin_template(std::string_view name) {
  const BuiltinTemplate* found = find_builtin_template(name);
  if (!found)
    throw_error(ErrorKind::kUsage, "there is no built-in template '{}'; the choices are {}", name,
                builtin_template_names());
  return *found;
}

std::string builtin_template_names() {
  std::string names;
  for (const BuiltinTemplate& row : kTemplates) names += (names.empty() ? "" : ", ") + std::string(row.name);
  return names;
}

std::string RenderedConversation::text() const {
  return all_text(pieces);
}

RenderedConversation render_conversation(const ChatTemplate& chat_template, const TemplateInputs& inputs) {
  const size_t n_system = n_system_messages(inputs.messages);
  if (n_system == 0) return {chat_template.render_pieces(inputs), false};
  RenderedConversation plain;
  try {
    plain.pieces = chat_template.render_pieces(inputs);
  } catch (const Error&) {
    if (auto other = try_folded(chat_template, inputs)) return *other;
    throw;
  }
  if (shows_system(chat_template, inputs, plain.text())) return plain;
  if (auto other = try_folded(chat_template, inputs)) return *other;
  throw_error(ErrorKind::kRuntime,
              "the chat template leaves the system prompt out, and refuses it inside the first user turn; use another "
              "template");
}

}  // namespace quern
