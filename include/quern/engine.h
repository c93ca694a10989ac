// The public face: an Engine is a loaded model, a Session one conversation's cache, generate() the loop around them.
// The front end sees tokens and numbers, never a tensor.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "quern/error.h"
#include "quern/report.h"

namespace quern {

using TokenId = int32_t;

struct EngineOptions {
  int threads = 0;                 ///< 0: the physical cores this process may use
  bool mmap = true;                ///< false: read the file into memory
  bool float_activations = false;  ///< --act f32: for checking accuracy; slower
  std::string pre;                 ///< overrides the file's pre-tokenizer name
};

struct ModelInfo {
  std::string name, architecture, path;
  size_t n_layers = 0, n_embd = 0, n_vocab = 0, n_ctx_train = 0;
  uint64_t file_bytes = 0;
  std::vector<std::string> warnings;
  bool has_chat_template = false;
};

struct ChatMessage {
  std::string role, content;       ///< role: system, user, assistant
};

/// A conversation as the model reads it. Message contents never become control tokens; only the template's own marks do.
struct ChatPrompt {
  std::vector<TokenId> tokens;
  std::string text;                ///< the exact text, for people
  std::string template_name;       ///< where the template came from
  bool system_folded = false;      ///< the template knows no system role: the text went into the first user turn
};

struct SessionOptions {
  size_t n_ctx = 0;                ///< tokens; 0: the model's context
  size_t rope_ctx = 0;             ///< the context that longrope chooses its factors by; 0: the model's
  std::string k_type = "f16", v_type = "f16";
  size_t batch = 512;              ///< most tokens of one prefill step
  int threads = 0;                 ///< 0: the engine's
  uint32_t kv_window = 0;          ///< keep the last so many tokens and generate without end; n_ctx is then not asked; 0: keep all
  uint32_t kv_sinks = 0;           ///< and the first so many, for ever
  uint32_t kv_heavy = 0;           ///< keep about so many tokens, those that attention uses most; 0: keep all
  uint64_t memory_limit_bytes = 0; ///< most that the cache may commit; 0: what the machine has left (MemAvailable, cgroup)
};

class Engine : public std::enable_shared_from_this<Engine> {
 public:
  /// `path`: a GGUF file, or the first of a split set. @throws Error(kModel)
  static std::shared_ptr<Engine> load(const std::string& path, const EngineOptions& options);
  ~Engine();

  const ModelInfo& info() const;
  int threads() const;
  const char* isa() const;
  double load_ms() const;

  std::vector<TokenId> tokenize(std::string_view text, bool add_special, bool parse_special) const;
  /// The text that a token adds to an answer; control tokens give nothing.
  std::string piece(TokenId id) const;
  bool is_end(TokenId id) const;
  /// The token that starts a text where the model asks for one, or −1.
  TokenId bos() const;

  /// Renders a conversation with the file's chat template, or the one named by `template_name` (a built-in one or a file).
  /// @throws Error(kUsage) when there is none (the choices are named), or what the template itself raises.
  ChatPrompt chat_prompt(std::span<const ChatMessage> messages, const std::string& template_name = {}) const;

  /// What a session would take, before anything is allocated.
  KvReport plan(const SessionOptions& options, size_t n_tokens) const;
  /// @throws Error(kUsage) on options that do not fit the model, Error(kRuntime) on lack of memory (sizes named).
  std::unique_ptr<class Session> new_session(const SessionOptions& options);

  struct Impl;
  const Impl& impl() const { return *impl_; }
  Impl& impl() { return *impl_; }

 private:
  Engine();
  std::unique_ptr<Impl> impl_;
};

struct SavedSession {
  size_t n_tokens = 0;
  uint64_t n_bytes = 0;            ///< of the file
  double ms = 0;
};

struct RestoredSession {
  std::string extra;               ///< what was given to save()
  size_t n_tokens = 0;
  uint64_t n_bytes = 0;
  double ms = 0;
};

/// Thrown by nothing: how a call on a session ended.
enum class StepStatus { kDone, kCancelled };

class Session {
 public:
  ~Session();

  /// Makes the cache hold exactly `tokens`: keeps the longest common prefix that it still has (at most all but the last token,
  /// whose logits are needed) and prefills the rest in chunks. Afterwards logits() are those after the last token.
  /// On kCancelled the cache holds a shorter, consistent prefix.
  /// @throws Error(kUsage) when the tokens exceed the context, Error(kRuntime) on non-finite numbers (layer named) or lack of memory.
  StepStatus sync(std::span<const TokenId> tokens, const std::atomic<bool>* cancelled = nullptr);
  /// The first half of sync(): keeps the common prefix and forgets the rest.
  void cut(std::span<const TokenId> tokens);
  /// Layers with windows forget what lies behind them, so that a cache cannot be cut much further back than its last step. A mark copies
  /// what they still hold (a window of each), and sync() and cut() can return to this place later. The last 8 marks are kept, at most
  /// 256 MiB of them. Nothing to do for a model without windows.
  void mark();
  /// One more token.
  StepStatus append(TokenId token, const std::atomic<bool>* cancelled = nullptr);

  /// All logits of a sequence fed from an empty cache: [n_tokens, n_vocab].
  std::vector<float> all_logits(std::span<const TokenId> tokens);

  /// Writes tokens, cache and logits to a file, and `extra`, which is the caller's. The file appears as a whole or not at all; the old
  /// one is kept until then. @throws Error(kRuntime) where that fails, Error(kUsage) where `path` holds something else than a session.
  SavedSession save(const std::string& path, std::string_view extra = {}) const;
  /// Continues where save() was called: the same tokens, cache and logits, bit by bit, without computing anything. The context and the
  /// batch may differ from the saver's. @throws Error(kRuntime) for a damaged file, Error(kUsage) for one of another model, KV type,
  /// policy or activation type (what was found, what is wanted, what to do); the session is then as it was.
  RestoredSession restore(const std::string& path);

  std::span<const float> logits() const;         ///< [n_vocab] after the last token
  std::span<const TokenId> tokens() const;       ///< what the cache holds
  size_t n_ctx() const;                          ///< tokens that the cache shows to a query at most
  bool is_endless() const;                       ///< a window of the user's forgets the oldest tokens, so that there is always room
  size_t max_tokens() const;                     ///< how long the sequence can get: n_ctx(), or no bound where it is endless
  bool is_full() const;                          ///< no room for one more token
  const Timings& timings() const;
  void reset_timings();
  KvReport report() const;

  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  friend class Engine;
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

struct SamplingOptions {
  float temperature = 0.8f;        ///< 0: the most likely token, ties to the lowest id
  int top_k = 40;                  ///< 0: off
  float top_p = 0.95f;             ///< 1: off
  float min_p = 0.05f;             ///< 0: off
  float repeat_penalty = 1.0f;     ///< 1: off
  int repeat_last_n = 64;          ///< tokens of prompt and answer that the penalty looks at
  uint64_t seed = 0;
  std::vector<std::pair<TokenId, float>> logit_bias;
};

enum class FinishReason { kStop, kLength, kContext, kInterrupted };
const char* finish_reason_name(FinishReason reason);  ///< stop length context interrupted

struct GenerateOptions {
  int n_predict = -1;              ///< most tokens to generate; −1: until the end or the context is full
  SamplingOptions sampling;
  std::vector<std::string> stop;   ///< texts that end the answer; nothing of them is given out
  bool ignore_end = false;         ///< for measuring: do not stop at end tokens
  const std::atomic<bool>* cancelled = nullptr;
  std::function<void(std::string_view)> on_text;  ///< complete characters as they come
};

struct GenerateResult {
  std::string text;
  std::vector<TokenId> tokens;     ///< generated, the ending token included
  FinishReason reason = FinishReason::kStop;
};

/// Continues after the session's tokens, whose logits are at hand.
GenerateResult generate(const Engine& engine, Session& session, const GenerateOptions& options);

}  // namespace quern
