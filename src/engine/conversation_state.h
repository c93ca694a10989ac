// What a session file keeps of a conversation beside the cache: messages, settings, and the timeline that ties tokens to text. Bytes in
// and out; knows neither files nor models.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/timeline.h"
#include "quern/engine.h"

namespace quern {

struct ConversationState {
  std::string system, template_name;
  std::optional<bool> thinking;
  std::vector<ChatMessage> messages;
  size_t first = 0;                ///< messages before it have left the context
  Timeline timeline;
};

/// As CBOR (RFC 8949), in which a text may hold any bytes: answers of a model need not be UTF-8.
std::string encode_state(const ConversationState& state);
/// @throws Error(kRuntime) for what encode_state cannot have written, with what is wrong.
ConversationState decode_state(std::string_view bytes, size_t n_vocab);

}  // namespace quern
