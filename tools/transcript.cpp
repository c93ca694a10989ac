// Messages to and from files. The messages are plain text; what a file says never becomes control tokens.
#include "transcript.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/utf8.h"

namespace quern::cli {
namespace {

using nlohmann::ordered_json;

constexpr int kVersion = 1;

std::string as_json(const Conversation& conversation, const ModelInfo& model) {
  ordered_json messages = ordered_json::array();
  if (!conversation.system().empty()) messages.push_back({{"role", "system"}, {"content", conversation.system()}});
  for (const ChatMessage& message : conversation.messages()) messages.push_back({{"role", message.role}, {"content", message.content}});
  const ordered_json json = {{"quern_chat", kVersion}, {"model", model.name}, {"file", std::filesystem::path(model.path).filename().string()}, {"template", conversation.template_name()}, {"messages", messages}};
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

std::string as_markdown(const Conversation& conversation, const ModelInfo& model) {
  std::string out = fmt::format("# Conversation with {}\n", model.name);
  const auto add = [&](std::string_view title, const std::string& text) {
    out += fmt::format("\n## {}\n\n{}", title, utf8_repair(text));
    if (!text.ends_with('\n')) out += '\n';
  };
  if (!conversation.system().empty()) add("System", conversation.system());
  for (const ChatMessage& message : conversation.messages()) add(message.role == "user" ? "User" : "Assistant", message.content);
  return out;
}

[[noreturn]] void bad_file(const std::string& path, const std::string& why) {
  throw Error(ErrorKind::kUsage, fmt::format("'{}' holds no conversation: {}; wanted is what /save NAME.json writes: an object whose \"messages\" are a list of {{\"role\", \"content\"}}", path, why));
}

}  // namespace

void save_transcript(const Conversation& conversation, const ModelInfo& model, const std::string& path) {
  const bool json = path.ends_with(".json"), markdown = path.ends_with(".md");
  if (!json && !markdown) throw Error(ErrorKind::kUsage, fmt::format("/save '{}': the name has to end with .json (to go on later) or .md (to read)", path));
  const std::string text = json ? as_json(conversation, model) : as_markdown(conversation, model), unfinished = path + ".part";
  std::FILE* out = std::fopen(unfinished.c_str(), "wb");
  const bool written = out && std::fwrite(text.data(), 1, text.size(), out) == text.size();
  const bool closed = out && std::fclose(out) == 0;
  if (!written || !closed || std::rename(unfinished.c_str(), path.c_str()) != 0) {
    const std::string why = std::strerror(errno);
    std::remove(unfinished.c_str());
    throw Error(ErrorKind::kRuntime, fmt::format("/save: '{}' cannot be written: {}", path, why));
  }
}

void load_transcript(Conversation& conversation, const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream bytes;
  if (in) bytes << in.rdbuf();
  if (!in) throw Error(ErrorKind::kUsage, fmt::format("/load: '{}' cannot be read", path));
  const ordered_json json = ordered_json::parse(bytes.str(), nullptr, false);
  if (json.is_discarded()) bad_file(path, "it is not JSON");
  if (!json.is_object() || !json.contains("messages") || !json["messages"].is_array()) bad_file(path, "it has no list of messages");
  std::string system;
  std::vector<ChatMessage> messages;
  for (const ordered_json& m : json["messages"]) {
    if (!m.is_object() || !m.contains("role") || !m.contains("content") || !m["role"].is_string() || !m["content"].is_string()) bad_file(path, fmt::format("message {} has no role and content", messages.size() + 1));
    if (m["role"] == "system" && messages.empty()) system = m["content"];
    else messages.push_back({m["role"], m["content"]});
  }
  conversation.set_messages(std::move(messages));
  conversation.set_system(system);
}

}  // namespace quern::cli
