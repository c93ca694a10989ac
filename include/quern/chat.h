// A conversation with a model: messages, the exact tokens they became, and a cache that each turn extends instead of reading the
// past again. The front end sees messages and numbers.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "quern/engine.h"

namespace quern {

/// What happens when a conversation outgrows the context.
enum class OnFull {
  kStop,  ///< the next message is refused, a long answer is cut
  kTrim   ///< the oldest turns are dropped whole; the system prompt stays
};

struct ChatOptions {
  std::string chat_template;       ///< a built-in name or a file; empty: the model file's own
  OnFull on_full = OnFull::kTrim;
};

/// How to produce one answer. All callbacks run on the calling thread.
struct TurnOptions {
  int n_predict = -1;              ///< most tokens; −1: until the end
  SamplingOptions sampling;
  std::vector<std::string> stop;
  bool ignore_end = false;
  const std::atomic<bool>* cancelled = nullptr;
  std::function<void(size_t done, size_t total)> on_prefill;            ///< tokens to compute; the first call has done = 0
  std::function<void(size_t n_turns)> on_trim;                          ///< older turns have just left the context
  std::function<void(std::string_view text, bool thinking)> on_text;    ///< whole characters; thinking: inside <think>…</think>
};

/// What one answer cost.
struct TurnStats {
  size_t prefill_tokens = 0;       ///< computed for the prompt
  size_t reused_tokens = 0;        ///< found in the cache
  size_t reread_tokens = 0;        ///< of prefill_tokens: known, but the cache could not go back far enough to keep them
  size_t decode_tokens = 0;
  double prefill_ms = 0, decode_ms = 0;
};

struct Turn {
  std::string text;
  FinishReason reason = FinishReason::kStop;
  bool kept = true;                ///< false: stopped before the first character; the conversation is as it was before
  TurnStats stats;
};

class Conversation {
 public:
  /// @throws Error(kUsage) when the model has no template and none is named (the choices are in the message), and what
  /// Engine::new_session throws.
  Conversation(std::shared_ptr<Engine> engine, const SessionOptions& session, const ChatOptions& options);
  ~Conversation();

  /// One message and its answer. After an error or a stop before the first character the message is not part of the history.
  /// @throws Error(kUsage) when the message does not fit into the context, and what Session::sync throws.
  Turn ask(const std::string& message, const TurnOptions& options);
  /// Another answer to the last message, in place of the old one. @throws Error(kUsage) when there is none.
  Turn regenerate(const TurnOptions& options);
  /// Takes the last message and its answer back and returns the message; nothing where there is none.
  std::optional<std::string> undo();
  /// Forgets all turns; the system prompt stays.
  void clear();
  /// An empty one takes the system prompt away.
  void set_system(const std::string& text);
  const std::string& system() const;
  /// For templates with a switch for thinking; nothing: the template's own default. @throws Error(kUsage) where there is no switch.
  void set_thinking(std::optional<bool> thinking);

  /// All turns, those that have left the context included; no system message.
  const std::vector<ChatMessage>& messages() const;
  /// Replaces the turns. @throws Error(kUsage) unless user and assistant alternate, beginning with a user and ending with an answer.
  void set_messages(std::vector<ChatMessage> messages);
  /// Writes messages, settings, tokens and cache to a file, as a whole or not at all. @throws what Session::save throws.
  SavedSession save(const std::string& path) const;
  /// Continues where save() was called, without reading anything again. The template may be another one: then the history is read again
  /// from where it differs. @throws what Session::restore throws, Error(kUsage) for a file that holds no conversation.
  RestoredSession restore(const std::string& path);

  /// Messages at the beginning that the model no longer sees.
  size_t n_dropped() const;

  /// The prompt that `message` would be answered to; the conversation stays as it is.
  ChatPrompt preview(const std::string& message) const;
  const std::string& template_name() const;
  bool has_thinking_switch() const;
  bool system_folded() const;      ///< of the last prompt: the template has no system role, the text went into the first user turn
  /// The tokens of the conversation so far, generated ones as they were generated.
  const std::vector<TokenId>& tokens() const;
  const Session& session() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quern
