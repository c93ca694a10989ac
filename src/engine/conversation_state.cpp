// Every number that is read is checked before it is used: the file may be anybody's.
#include "engine/conversation_state.h"

#include <nlohmann/json.hpp>

#include "base/check.h"

namespace quern {
namespace {

using nlohmann::json;

constexpr int kVersion = 1;

json::binary_t bytes_of(std::string_view text) { return json::binary_t(std::vector<uint8_t>(text.begin(), text.end())); }

std::string text_of(const json& value) {
  const auto& bytes = value.get_binary();
  return {bytes.begin(), bytes.end()};
}

[[noreturn]] void damaged(const std::string& why) { throw_error(ErrorKind::kRuntime, "the conversation in it is damaged: {}", why); }

Timeline decode_timeline(const json& j, size_t n_vocab) {
  Timeline::Parts parts{j.at("tokens").get<std::vector<TokenId>>(), text_of(j.at("text")), text_of(j.at("marks")), {}};
  for (const TokenId id : parts.tokens) {
    if (id < 0 || size_t(id) >= n_vocab) damaged(fmt::format("token {}, and the vocabulary has 0 to {}", id, n_vocab - 1));
  }
  if (parts.marks.size() != parts.text.size()) damaged(fmt::format("{} marks for {} bytes", parts.marks.size(), parts.text.size()));
  const std::vector<size_t> numbers = j.at("places").get<std::vector<size_t>>();
  Timeline::Place last;
  for (size_t i = 0; i + 1 < numbers.size(); i += 2) {
    const Timeline::Place place{numbers[i], numbers[i + 1]};
    if (place.bytes < last.bytes || place.tokens < last.tokens || place.bytes > parts.text.size() || place.tokens > parts.tokens.size()) damaged(fmt::format("place {}", i / 2));
    parts.places.push_back(last = place);
  }
  return Timeline(std::move(parts));
}

}  // namespace

std::string encode_state(const ConversationState& state) {
  json messages = json::array(), places = json::array();
  for (const ChatMessage& message : state.messages) messages.push_back({message.role, bytes_of(message.content)});
  const Timeline::Parts& t = state.timeline.parts();
  for (const Timeline::Place& place : t.places) {
    places.push_back(place.bytes);
    places.push_back(place.tokens);
  }
  const json j = {{"chat", kVersion},
                  {"system", bytes_of(state.system)},
                  {"template", state.template_name},
                  {"thinking", state.thinking ? json(*state.thinking) : json(nullptr)},
                  {"messages", std::move(messages)},
                  {"first", state.first},
                  {"timeline", {{"tokens", t.tokens}, {"text", bytes_of(t.text)}, {"marks", bytes_of(t.marks)}, {"places", std::move(places)}}}};
  std::string out;
  json::to_cbor(j, out);
  return out;
}

ConversationState decode_state(std::string_view bytes, size_t n_vocab) {
  try {
    const json j = json::from_cbor(bytes.begin(), bytes.end());
    if (j.at("chat").get<int>() != kVersion) damaged(fmt::format("its version is {}, and this quern reads {}", j.at("chat").dump(), kVersion));
    ConversationState state;
    state.system = text_of(j.at("system"));
    state.template_name = j.at("template").get<std::string>();
    if (!j.at("thinking").is_null()) state.thinking = j.at("thinking").get<bool>();
    for (const json& m : j.at("messages")) state.messages.push_back({m.at(0).get<std::string>(), text_of(m.at(1))});
    for (size_t i = 0; i < state.messages.size(); ++i) {
      if (state.messages[i].role != (i % 2 == 0 ? "user" : "assistant")) damaged(fmt::format("message {} is of the role '{}'", i + 1, state.messages[i].role));
    }
    state.first = j.at("first").get<size_t>();
    if (state.messages.size() % 2 != 0 || state.first > state.messages.size()) damaged(fmt::format("{} messages, of which {} have left", state.messages.size(), state.first));
    state.timeline = decode_timeline(j.at("timeline"), n_vocab);
    return state;
  } catch (const json::exception& error) {
    damaged(error.what());
  }
}

}  // namespace quern
