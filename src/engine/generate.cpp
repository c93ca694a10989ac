// The decode loop: sample, show, append; and the rules for ending.
#include <algorithm>

#include "base/utf8.h"
#include "engine/engine_impl.h"
#include "engine/sampler.h"

namespace quern {
namespace {

/// Gives text out as it becomes certain: whole characters only, and nothing that may still turn into a stop text.
class TextOut {
 public:
  TextOut(const std::vector<std::string>& stops, const std::function<void(std::string_view)>& sink) : stops_(stops), sink_(sink) {}

  /// Returns true when a stop text is complete; what stands before it has been given out then.
  bool add(std::string_view piece) {
    pending_ += piece;
    size_t stop_at = std::string::npos;
    for (const std::string& stop : stops_) stop_at = std::min(stop_at, pending_.find(stop));
    if (stop_at != std::string::npos) {
      pending_.resize(stop_at);
      finish();
      return true;
    }
    give(pending_.size() - std::max(held_for_stops(), utf8_incomplete_tail(pending_)));
    return false;
  }
  void finish() { give(pending_.size()); }
  const std::string& text() const { return text_; }

 private:
  /// Bytes at the end that are the beginning of a stop text.
  size_t held_for_stops() const {
    size_t held = 0;
    for (const std::string& stop : stops_) {
      for (size_t n = std::min(stop.size() - 1, pending_.size()); n > held; --n) {
        if (std::string_view(pending_).substr(pending_.size() - n) == std::string_view(stop).substr(0, n)) held = n;
      }
    }
    return held;
  }
  void give(size_t n) {
    if (n == 0) return;
    text_.append(pending_, 0, n);
    if (sink_) sink_(std::string_view(pending_).substr(0, n));
    pending_.erase(0, n);
  }

  const std::vector<std::string>& stops_;
  const std::function<void(std::string_view)>& sink_;
  std::string pending_, text_;
};

}  // namespace

const char* finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop: return "stop";
    case FinishReason::kLength: return "length";
    case FinishReason::kContext: return "context";
    case FinishReason::kInterrupted: return "interrupted";
  }
  return "";
}

GenerateResult generate(const Engine& engine, Session& session, const GenerateOptions& options) {
  GenerateResult result;
  std::vector<std::string> stops;
  std::copy_if(options.stop.begin(), options.stop.end(), std::back_inserter(stops), [](const std::string& s) { return !s.empty(); });
  Sampler sampler(options.sampling, engine.info().n_vocab, *engine.impl().kernels.vector);
  TextOut out(stops, options.on_text);
  std::vector<TokenId> history(session.tokens().begin(), session.tokens().end());
  const auto interrupted = [&] { return options.cancelled && options.cancelled->load(); };

  result.reason = FinishReason::kLength;
  while (options.n_predict < 0 || int(result.tokens.size()) < options.n_predict) {
    if (interrupted()) {
      result.reason = FinishReason::kInterrupted;
      break;
    }
    const TokenId token = sampler.sample(session.logits(), history);
    result.tokens.push_back(token);
    history.push_back(token);
    const bool ends = !options.ignore_end && engine.is_end(token);
    if (ends || out.add(engine.piece(token))) {
      result.reason = FinishReason::kStop;
      break;
    }
    if (options.n_predict >= 0 && int(result.tokens.size()) >= options.n_predict) break;
    if (session.is_full()) {
      result.reason = FinishReason::kContext;
      break;
    }
    if (session.append(token, options.cancelled) == StepStatus::kCancelled) {
      result.reason = FinishReason::kInterrupted;
      break;
    }
  }
  out.finish();
  result.text = out.text();
  return result;
}

}  // namespace quern
