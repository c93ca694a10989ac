// One token timeline and its cache. Prefill is explicit: what is new is computed in chunks, what is known is kept.
#include <algorithm>
#include <chrono>
#include <limits>

#include "base/check.h"
#include "engine/engine_impl.h"
#include "engine/session_file.h"
#include "ops/evict.h"

namespace quern {
namespace {

constexpr size_t kMostMarks = 8, kMostMarkBytes = size_t(256) << 20;

class Stopwatch {
 public:
  double ms() const { return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// The factors that fit the context: longrope chooses by its size, llama3 has one set.
std::span<const float> rope_factors(const ModelWeights& weights, const RopeParams& rope, size_t n_ctx) {
  if (!weights.rope_factors_long.empty() && n_ctx > rope.original_ctx) return weights.rope_factors_long;
  if (!weights.rope_factors_short.empty()) return weights.rope_factors_short;
  return weights.rope_factors;
}

}  // namespace

Session::Impl::Impl(std::shared_ptr<Engine> e, const SessionOptions& session_options, const KvLayoutOptions& layout)
    : engine(std::move(e)), options(session_options), cache(KvLayout(kv_geometry(engine->impl().model.params), layout)) {
  const Model& model = engine->impl().model;
  const size_t rope_ctx = options.rope_ctx ? options.rope_ctx : model.params.n_ctx_train;
  for (const RopeParams& rope : model.params.ropes) {
    ropes.push_back(make_rope_table(rope, rope_factors(model.weights, rope, rope_ctx)));
    if (kv_type_is_framed(layout.k_type)) add_frame_angles(ropes.back(), 0);
  }
  timings.load_ms = model.load_ms;
  logits.resize(model.params.n_vocab);
  logits.zero();
}

void Session::Impl::page_in() { timings.page_in_ms += engine->impl().page_in(); }

void Session::Impl::forget() {
  cache.rewind(0);
  tokens.clear();
  marks.clear();
  logits_at = 0;
}

size_t Session::Impl::back_to_mark(size_t keep) {
  while (!marks.empty() && marks.back().n_tokens > keep) marks.pop_back();
  if (marks.empty()) {
    forget();
    return 0;
  }
  restore_ring_snapshot(cache, marks.back());
  return marks.back().n_tokens;
}

StepStatus Session::Impl::step(std::span<const TokenId> chunk, size_t n_logits, float* out, const std::atomic<bool>* cancelled) {
  while (!chunk.empty()) {
    if (cache.needs_eviction(tokens.size())) {
      const ModelParams& params = engine_impl().model.params;
      ops::evict(n_threads(), engine_impl().kernels, cache, tokens.size(), params.attention_scale, params.attention_softcap);
      cache.evicted();
    }
    const auto part = chunk.first(std::min(chunk.size(), cache.step_end(tokens.size()) - tokens.size()));
    const size_t without = chunk.size() - n_logits, wanted = part.size() > without ? part.size() - without : 0;
    if (const StepStatus status = run_step(part, wanted, out, cancelled); status != StepStatus::kDone) return status;
    out += wanted * engine_impl().model.params.n_vocab;
    n_logits -= wanted;
    chunk = chunk.subspan(part.size());
  }
  return StepStatus::kDone;
}

StepStatus Session::Impl::run_step(std::span<const TokenId> chunk, size_t n_logits, float* out, const std::atomic<bool>* cancelled) {
  const Engine::Impl& e = engine_impl();
  for (const TokenId id : chunk) {
    if (id < 0 || uint32_t(id) >= e.model.params.n_vocab) throw_error(ErrorKind::kUsage, "token {} does not exist; the vocabulary has 0 to {}", id, e.model.params.n_vocab - 1);
  }
  cache.prepare(tokens.size() + chunk.size());
  if (kv_type_is_framed(cache.layout().options().k_type)) {
    for (RopeTable& rope : ropes) add_frame_angles(rope, tokens.size() + chunk.size());
  }
  const Segment segment{&cache, chunk, tokens.size(), n_logits, ropes};
  const ForwardResult result = forward(e.model, e.kernels, workspace, std::span(&segment, 1), {n_threads(), e.options.float_activations, cancelled, clock}, out);
  if (result.status == ForwardStatus::kCancelled) return StepStatus::kCancelled;
  if (result.status == ForwardStatus::kNonFinite) {
    throw_error(ErrorKind::kRuntime, "a number that is not finite (NaN or infinity) came up in {} at positions {} to {}; the file may be damaged: compare its checksum with the publisher's",
                result.where, tokens.size(), tokens.size() + chunk.size() - 1);
  }
  tokens.insert(tokens.end(), chunk.begin(), chunk.end());
  cache.advance(tokens.size());
  ++n_steps;
  return StepStatus::kDone;
}

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::~Session() = default;

StepStatus Session::sync(std::span<const TokenId> wanted, const std::atomic<bool>* cancelled) {
  Impl& s = *impl_;
  if (wanted.empty()) throw_error(ErrorKind::kUsage, "the prompt is empty: it has no tokens, and this model adds none of its own");
  if (wanted.size() > max_tokens()) {
    throw_error(ErrorKind::kUsage, "the prompt has {} tokens, but the context holds {}; give a larger -c (the model was trained for {}) or a shorter prompt", wanted.size(), n_ctx(), s.engine->info().n_ctx_train);
  }
  cut(wanted);
  const size_t keep = s.tokens.size();
  s.cache.check_memory(wanted.size());  // before minutes of reading, not after them
  s.logits_at = 0;
  s.timings.reused_tokens += keep;
  s.page_in();

  const Stopwatch watch;
  StepStatus status = StepStatus::kDone;
  while (s.tokens.size() < wanted.size() && status == StepStatus::kDone) {
    const auto rest = wanted.subspan(s.tokens.size());
    const auto chunk = rest.first(std::min(rest.size(), s.options.batch));
    status = s.step(chunk, chunk.size() == rest.size() ? 1 : 0, s.logits.data(), cancelled);
    if (status == StepStatus::kDone) s.timings.prefill_tokens += chunk.size();
  }
  if (status == StepStatus::kDone) s.logits_at = s.tokens.size();
  s.timings.prefill_ms += watch.ms();
  return status;
}

void Session::cut(std::span<const TokenId> wanted) {
  Impl& s = *impl_;
  size_t keep = size_t(std::mismatch(s.tokens.begin(), s.tokens.end(), wanted.begin(), wanted.end()).first - s.tokens.begin());
  keep = std::min(keep, wanted.size() - std::min<size_t>(wanted.size(), 1));
  if (keep == s.tokens.size()) return;
  s.logits_at = 0;
  keep = s.cache.rewind_point(keep);
  if (keep < s.tokens.size() && !s.cache.rewind(keep)) {
    const size_t held = s.back_to_mark(keep);
    s.timings.reread_tokens += keep - held;
    keep = held;
  }
  s.tokens.resize(keep);
  while (!s.marks.empty() && s.marks.back().n_tokens > keep) s.marks.pop_back();
}

void Session::mark() {
  Impl& s = *impl_;
  // What eviction by use left depends on what came after the place; it has its own way back.
  if (s.tokens.empty() || s.cache.layout().options().policy.heavy > 0 || !has_rings(s.cache.layout()) || (!s.marks.empty() && s.marks.back().n_tokens == s.tokens.size())) return;
  s.marks.push_back(take_ring_snapshot(s.cache));
  size_t bytes = 0;
  for (const RingSnapshot& mark : s.marks) bytes += mark.bytes.size();
  while (!s.marks.empty() && (s.marks.size() > kMostMarks || bytes > kMostMarkBytes)) {
    bytes -= s.marks.front().bytes.size();
    s.marks.erase(s.marks.begin());
  }
}

StepStatus Session::append(TokenId token, const std::atomic<bool>* cancelled) {
  Impl& s = *impl_;
  if (is_full()) throw_error(ErrorKind::kUsage, "the context of {} tokens is full", n_ctx());
  const Stopwatch watch;
  s.logits_at = 0;
  const StepStatus status = s.step(std::span(&token, 1), 1, s.logits.data(), cancelled);
  if (status == StepStatus::kDone) {
    ++s.timings.decode_tokens;
    s.logits_at = s.tokens.size();
  }
  s.timings.decode_ms += watch.ms();
  return status;
}

std::vector<float> Session::all_logits(std::span<const TokenId> wanted) {
  Impl& s = *impl_;
  if (wanted.size() > max_tokens()) throw_error(ErrorKind::kUsage, "{} tokens were given, but the context holds {}; give a larger -c", wanted.size(), n_ctx());
  const size_t n_vocab = s.engine_impl().model.params.n_vocab;
  std::vector<float> out(wanted.size() * n_vocab);
  s.page_in();
  s.forget();
  for (size_t done = 0; done < wanted.size();) {
    const auto chunk = wanted.subspan(done, std::min(wanted.size() - done, s.options.batch));
    s.step(chunk, chunk.size(), out.data() + done * n_vocab, nullptr);
    done += chunk.size();
  }
  return out;
}

SavedSession Session::save(const std::string& path, std::string_view extra) const { return save_session(*impl_, path, extra); }
RestoredSession Session::restore(const std::string& path) { return restore_session(*impl_, path); }

std::span<const float> Session::logits() const { return {impl_->logits.data(), impl_->logits.size()}; }
std::span<const TokenId> Session::tokens() const { return impl_->tokens; }
size_t Session::n_ctx() const { return impl_->cache.layout().options().n_ctx; }
bool Session::is_endless() const { return impl_->is_endless(); }
size_t Session::max_tokens() const { return is_endless() ? std::numeric_limits<size_t>::max() : n_ctx(); }
bool Session::is_full() const { return impl_->tokens.size() >= max_tokens(); }
const Timings& Session::timings() const { return impl_->timings; }
void Session::reset_timings() { impl_->timings = {}; }
KvReport Session::report() const { return make_report(impl_->engine_impl().model.params, impl_->cache.layout(), impl_->tokens.size(), impl_->cache.committed_bytes()); }

}  // namespace quern
