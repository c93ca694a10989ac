// Turns of a conversation. What the cache holds is always a beginning of the timeline; each turn renders the whole history, keeps
// the tokens as long as the text agrees, and lets the session compute the rest.
#include <algorithm>

#include "base/check.h"
#include "base/utf8.h"
#include "engine/chat_render.h"
#include "engine/conversation_state.h"
#include "engine/engine_impl.h"
#include "engine/think_split.h"
#include "engine/timeline.h"
#include "quern/chat.h"

namespace quern {
namespace {

/// A prompt that would leave less than this share of the context to the answer makes the oldest turns go …
constexpr size_t kLeastRoomShare = 8;
/// … until this share is free, so that the shortened history is read again only every few turns.
constexpr size_t kFreedShare = 3;

}  // namespace

struct Conversation::Impl {
  std::shared_ptr<Engine> engine;
  ChatRenderer renderer;
  ChatOptions options;
  std::unique_ptr<Session> session;
  size_t batch;                          ///< most tokens of one prefill step
  bool has_windows;                      ///< the cache cannot go back everywhere: places are marked to which it can
  std::string system;
  std::optional<bool> thinking;
  std::vector<ChatMessage> messages;
  size_t first = 0;                      ///< messages before it have left the context
  Timeline timeline;
  bool folded = false;

  struct Prompt {
    RenderedChat chat;
    Timeline::Place keep;
    std::vector<TokenId> rest;
    size_t n_tokens() const { return keep.tokens + rest.size(); }
    MarkedText marked() const { return {chat.text, chat.plain}; }
  };

  Impl(std::shared_ptr<Engine> e, const SessionOptions& session_options, const ChatOptions& chat_options)
      : engine(std::move(e)), renderer(engine->impl().model, chat_options.chat_template), options(chat_options), session(engine->new_session(session_options)), batch(session_options.batch),
        has_windows(session->is_endless() || !session->report().windowed_layers.empty()) {}

  const Tokenizer& tokenizer() const { return *engine->impl().model.tokenizer; }
  Prompt make_prompt() const;
  Prompt fit(const TurnOptions& turn);
  bool drop_oldest_turn();
  void cut_to_timeline();
  StepStatus prefill(std::span<const TokenId> tokens, const TurnOptions& turn, TurnStats& stats);
  GenerateResult decode(const TurnOptions& turn, int n_predict, ThinkSplit& out, TurnStats& stats);
  bool make_room(const TurnOptions& turn, std::vector<TokenId>& generated, Turn& result, bool& interrupted);
  Turn answer(const TurnOptions& turn);
};

Conversation::Impl::Prompt Conversation::Impl::make_prompt() const {
  std::vector<ChatMessage> visible;
  if (!system.empty()) visible.push_back({"system", system});
  visible.insert(visible.end(), messages.begin() + ptrdiff_t(first), messages.end());
  Prompt prompt;
  prompt.chat = renderer.render(visible, thinking);
  prompt.keep = timeline.common(prompt.marked());
  std::vector<ByteRange> plain;
  for (const ByteRange& range : prompt.chat.plain) {
    if (range.end > prompt.keep.bytes) plain.push_back({std::max(range.begin, prompt.keep.bytes) - prompt.keep.bytes, range.end - prompt.keep.bytes});
  }
  const bool from_start = prompt.keep.tokens == 0;
  const bool behind_text = !from_start && tokenizer().kind(timeline.tokens()[prompt.keep.tokens - 1]) != TokenKind::kControl;
  const std::string_view rest = std::string_view(prompt.chat.text).substr(prompt.keep.bytes);
  prompt.rest = tokenizer().encode(rest, {.add_special = from_start, .parse_special = true, .single_bos = true, .continues = behind_text, .plain = plain});
  return prompt;
}

/// The first message after the oldest user message and its answer becomes the first; false where only the last message is left.
bool Conversation::Impl::drop_oldest_turn() {
  size_t next = first + 1;
  while (next < messages.size() && messages[next].role != "user") ++next;
  if (next >= messages.size()) return false;
  first = next;
  return true;
}

/// The prompt for the messages as they are, with room for an answer; older turns are dropped where the options say so.
Conversation::Impl::Prompt Conversation::Impl::fit(const TurnOptions& turn) {
  const size_t n_ctx = session->max_tokens(), first_before = first;
  const size_t wanted_room = turn.n_predict > 0 ? std::min(size_t(turn.n_predict), n_ctx / kLeastRoomShare) : n_ctx / kLeastRoomShare;
  Prompt prompt = make_prompt();
  size_t n_turns = 0;
  if (options.on_full == OnFull::kTrim && prompt.n_tokens() + wanted_room > n_ctx) {
    while (prompt.n_tokens() > n_ctx - n_ctx / kFreedShare && drop_oldest_turn()) {
      prompt = make_prompt();
      ++n_turns;
    }
  }
  if (prompt.n_tokens() < n_ctx) {
    if (n_turns > 0 && turn.on_trim) turn.on_trim(n_turns);
    return prompt;
  }
  first = first_before;
  if (options.on_full == OnFull::kStop && messages.size() > first + 1) {
    throw_error(ErrorKind::kUsage, "the context is full: with this message the conversation has {} tokens, and the context holds {}; take turns back, clear, give a larger -c, or let --on-full trim drop the oldest turns", prompt.n_tokens(), n_ctx);
  }
  throw_error(ErrorKind::kUsage, "this message is too long: with it the prompt has {} tokens, but the context holds {}; shorten it or give a larger -c (the model was trained for {})", prompt.n_tokens(), n_ctx, engine->info().n_ctx_train);
}

/// After an exception in the middle of a turn: the cache may hold what the timeline had no time to take note of.
void Conversation::Impl::cut_to_timeline() { session->cut(timeline.tokens()); }

/// Chunk by chunk, so that progress can be shown.
StepStatus Conversation::Impl::prefill(std::span<const TokenId> tokens, const TurnOptions& turn, TurnStats& stats) {
  const auto held = session->tokens();
  const size_t known = std::min(size_t(std::mismatch(held.begin(), held.end(), tokens.begin(), tokens.end()).first - held.begin()), tokens.size() - 1);
  const Timings before = session->timings();
  const size_t total = tokens.size() - known;
  if (turn.on_prefill) turn.on_prefill(0, total);
  session->cut(tokens);
  session->mark();  // for /undo
  size_t kept = 0;
  StepStatus status = StepStatus::kDone;
  for (size_t end = known; end < tokens.size() && status == StepStatus::kDone;) {
    const bool first_chunk = end == known;
    // Another answer needs the logits of the last token again, so the place to come back to is the one in front of it.
    const bool before_last = has_windows && end + 1 < tokens.size() && end + batch >= tokens.size();
    end = before_last ? tokens.size() - 1 : std::min(end + batch, tokens.size());
    status = session->sync(tokens.first(end), turn.cancelled);
    if (before_last && status == StepStatus::kDone) session->mark();
    if (first_chunk) kept = session->timings().reused_tokens - before.reused_tokens;
    if (turn.on_prefill) turn.on_prefill(end - known, total);
  }
  const Timings& after = session->timings();
  stats.prefill_tokens += after.prefill_tokens - before.prefill_tokens;
  stats.prefill_ms += after.prefill_ms - before.prefill_ms;
  stats.reused_tokens += kept;
  stats.reread_tokens += known - kept;
  return status;
}

GenerateResult Conversation::Impl::decode(const TurnOptions& turn, int n_predict, ThinkSplit& out, TurnStats& stats) {
  const Timings before = session->timings();
  GenerateOptions generate_options;
  generate_options.n_predict = n_predict;
  generate_options.sampling = turn.sampling;
  generate_options.stop = turn.stop;
  generate_options.ignore_end = turn.ignore_end;
  generate_options.cancelled = turn.cancelled;
  generate_options.on_text = [&](std::string_view text) { out.add(text); };
  GenerateResult result = generate(*engine, *session, generate_options);
  for (const TokenId id : result.tokens) timeline.generated(id, tokenizer().piece(id, true), tokenizer().kind(id) == TokenKind::kControl);
  stats.decode_tokens += result.tokens.size();
  stats.decode_ms += session->timings().decode_ms - before.decode_ms;
  return result;
}

/// The context filled up in the middle of an answer: drops the oldest turns and reads the rest again, so that the answer can go on.
bool Conversation::Impl::make_room(const TurnOptions& turn, std::vector<TokenId>& generated, Turn& result, bool& interrupted) {
  if (options.on_full != OnFull::kTrim) return false;
  const size_t n_ctx = session->max_tokens();
  size_t n_turns = 0;
  Prompt prompt;
  while (drop_oldest_turn()) {
    ++n_turns;
    prompt = make_prompt();
    if (prompt.n_tokens() + generated.size() <= n_ctx - n_ctx / kFreedShare) break;
  }
  if (n_turns == 0 || prompt.n_tokens() + generated.size() >= n_ctx) return false;
  timeline.extend(prompt.keep, prompt.marked(), prompt.rest);
  for (const TokenId id : generated) timeline.generated(id, tokenizer().piece(id, true), tokenizer().kind(id) == TokenKind::kControl);
  if (turn.on_trim) turn.on_trim(n_turns);
  interrupted = prefill(timeline.tokens(), turn, result.stats) == StepStatus::kCancelled;
  return true;
}

/// Answers the messages, the last of which is the user's. The answer joins the messages where it is kept.
Turn Conversation::Impl::answer(const TurnOptions& turn) {
  Prompt prompt = fit(turn);
  folded = prompt.chat.system_folded;
  timeline.extend(prompt.keep, prompt.marked(), prompt.rest);
  Turn result;
  result.reason = FinishReason::kInterrupted;
  bool interrupted = prefill(timeline.tokens(), turn, result.stats) == StepStatus::kCancelled;
  ThinkSplit out(turn.on_text ? turn.on_text : [](std::string_view, bool) {}, opens_thinking(prompt.chat.text));
  std::vector<TokenId> generated;
  while (!interrupted) {
    const int left = turn.n_predict < 0 ? -1 : turn.n_predict - int(generated.size());
    const GenerateResult part = decode(turn, left, out, result.stats);
    result.text += part.text;
    result.reason = part.reason;
    generated.insert(generated.end(), part.tokens.begin(), part.tokens.end());
    if (part.reason != FinishReason::kContext || !make_room(turn, generated, result, interrupted)) break;
  }
  if (interrupted) result.reason = FinishReason::kInterrupted;
  out.finish();
  result.text.resize(result.text.size() - utf8_incomplete_tail(result.text));
  result.kept = result.reason != FinishReason::kInterrupted || !result.text.empty();
  if (result.kept) messages.push_back({"assistant", result.text});
  return result;
}

Conversation::Conversation(std::shared_ptr<Engine> engine, const SessionOptions& session, const ChatOptions& options)
    : impl_(std::make_unique<Impl>(std::move(engine), session, options)) {}
Conversation::~Conversation() = default;

Turn Conversation::ask(const std::string& message, const TurnOptions& options) {
  const size_t n_before = impl_->messages.size(), first_before = impl_->first;
  const auto take_back = [&] {
    impl_->messages.resize(n_before);
    impl_->first = first_before;
  };
  impl_->messages.push_back({"user", message});
  try {
    Turn turn = impl_->answer(options);
    if (!turn.kept) take_back();
    return turn;
  } catch (...) {
    take_back();
    impl_->cut_to_timeline();
    throw;
  }
}

Turn Conversation::regenerate(const TurnOptions& options) {
  std::vector<ChatMessage>& messages = impl_->messages;
  if (messages.empty()) throw_error(ErrorKind::kUsage, "there is no answer yet that could be given again");
  const ChatMessage old = messages.back();
  const size_t first_before = impl_->first;
  messages.pop_back();
  const auto put_back = [&] {
    messages.push_back(old);
    impl_->first = first_before;
  };
  try {
    Turn turn = impl_->answer(options);
    if (!turn.kept) put_back();
    return turn;
  } catch (...) {
    put_back();
    impl_->cut_to_timeline();
    throw;
  }
}

std::optional<std::string> Conversation::undo() {
  std::vector<ChatMessage>& messages = impl_->messages;
  if (messages.empty()) return {};
  messages.pop_back();
  std::string message = std::move(messages.back().content);
  messages.pop_back();
  // With nothing left to see, older turns come back as far as they fit.
  if (impl_->first >= messages.size()) impl_->first = 0;
  return message;
}

void Conversation::clear() {
  impl_->messages.clear();
  impl_->first = 0;
}

void Conversation::set_system(const std::string& text) { impl_->system = text; }
const std::string& Conversation::system() const { return impl_->system; }

void Conversation::set_thinking(std::optional<bool> thinking) {
  if (thinking && !has_thinking_switch()) throw_error(ErrorKind::kUsage, "this template has no switch for thinking (enable_thinking)");
  impl_->thinking = thinking;
}

const std::vector<ChatMessage>& Conversation::messages() const { return impl_->messages; }

void Conversation::set_messages(std::vector<ChatMessage> messages) {
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string expected = i % 2 == 0 ? "user" : "assistant";
    if (messages[i].role != expected) throw_error(ErrorKind::kUsage, "message {} is of the role '{}', but a conversation alternates between user and assistant: '{}' was expected", i + 1, messages[i].role, expected);
  }
  if (messages.size() % 2 != 0) throw_error(ErrorKind::kUsage, "the last of the {} messages has no answer; a conversation ends with the assistant's", messages.size());
  impl_->messages = std::move(messages);
  impl_->first = 0;
}

SavedSession Conversation::save(const std::string& path) const {
  const Impl& c = *impl_;
  return c.session->save(path, encode_state({c.system, template_name(), c.thinking, c.messages, c.first, c.timeline}));
}

RestoredSession Conversation::restore(const std::string& path) {
  RestoredSession restored = impl_->session->restore(path);
  if (restored.extra.empty()) throw_error(ErrorKind::kUsage, "session file '{}' holds no conversation (quern run wrote it): choose another name, or delete it to start afresh", path);
  ConversationState state;
  try {
    state = decode_state(restored.extra, impl_->engine->info().n_vocab);
  } catch (const Error& error) {
    throw_error(error.kind(), "session file '{}': {}", path, error.what());
  }
  const auto held = session().tokens();
  const std::vector<TokenId>& all = state.timeline.tokens();
  if (held.size() > all.size() || !std::equal(held.begin(), held.end(), all.begin())) throw_error(ErrorKind::kRuntime, "session file '{}' is damaged: its cache is not that of its conversation", path);
  impl_->system = std::move(state.system);
  if (has_thinking_switch()) impl_->thinking = state.thinking;
  impl_->messages = std::move(state.messages);
  impl_->first = state.first;
  impl_->timeline = std::move(state.timeline);
  restored.extra.clear();
  return restored;
}

size_t Conversation::n_dropped() const { return impl_->first; }

ChatPrompt Conversation::preview(const std::string& message) const {
  impl_->messages.push_back({"user", message});
  Impl::Prompt prompt;
  try {
    prompt = impl_->make_prompt();
  } catch (...) {
    impl_->messages.pop_back();
    throw;
  }
  impl_->messages.pop_back();
  ChatPrompt out;
  const std::vector<TokenId>& held = impl_->timeline.tokens();
  out.tokens.assign(held.begin(), held.begin() + ptrdiff_t(prompt.keep.tokens));
  out.tokens.insert(out.tokens.end(), prompt.rest.begin(), prompt.rest.end());
  out.text = std::move(prompt.chat.text);
  out.template_name = template_name();
  out.system_folded = prompt.chat.system_folded;
  return out;
}

const std::string& Conversation::template_name() const { return impl_->renderer.name(); }
bool Conversation::has_thinking_switch() const { return impl_->renderer.has_thinking_switch(); }
bool Conversation::system_folded() const { return impl_->folded; }
const std::vector<TokenId>& Conversation::tokens() const { return impl_->timeline.tokens(); }
const Session& Conversation::session() const { return *impl_->session; }

}  // namespace quern
