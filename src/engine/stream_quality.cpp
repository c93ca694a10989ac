// One column after the other reads the text; a recomputing one starts from an empty cache every few tokens, which costs a window's
// prefill each time and is why it is taken at a stride.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "engine/engine_impl.h"
#include "engine/scoring.h"
#include "parallel/team.h"
#include "quern/perplexity.h"

namespace quern {
namespace {

constexpr size_t kSlab = 64;  // positions whose logits are held at once
constexpr double kNotScored = std::numeric_limits<double>::quiet_NaN();

class Stream {
 public:
  Stream(const std::shared_ptr<Engine>& engine, std::span<const TokenId> tokens, const StreamOptions& options)
      : engine_(engine), options_(options), n_vocab_(engine->info().n_vocab), logits_(kSlab * n_vocab_) {
    if (tokens.size() < 2) throw_error(ErrorKind::kUsage, "the text has {} tokens; two are needed to score one prediction", tokens.size());
    n_ = options.n_tokens ? options.n_tokens : tokens.size() - 1;
    if (n_ + 1 > tokens.size()) throw_error(ErrorKind::kUsage, "the text has {} tokens, which give {} predictions, but {} are to be scored", tokens.size(), tokens.size() - 1, n_);
    if (options.bucket == 0 || options.stride == 0 || options.n_scored == 0 || options.n_scored > options.stride) {
      throw_error(ErrorKind::kUsage, "buckets of {}, and {} of every {} predictions recomputed: each has to be at least 1, and no more can be scored than the stride has", options.bucket, options.n_scored, options.stride);
    }
    for (const StreamColumn& c : options.columns) {
      if (c.kind == StreamColumn::Kind::kRecompute && c.recompute < options.n_scored) throw_error(ErrorKind::kUsage, "{}: a window of {} tokens cannot score {} predictions", c.name, c.recompute, options.n_scored);
    }
    tokens_.assign(tokens.begin(), tokens.begin() + ptrdiff_t(n_ + 1));
    for (int i = 0; i < engine->threads(); ++i) exps_.emplace_back(n_vocab_);
  }

  StreamReport run() {
    StreamReport report;
    report.n_tokens = n_;
    report.bucket = options_.bucket;
    std::vector<double> reference;
    for (const StreamColumn& column : options_.columns) {
      StreamFigures figures;
      figures.column = column;
      const std::vector<double> nll = column.kind == StreamColumn::Kind::kRecompute ? recompute(column, figures) : read(column, figures);
      if (reference.empty()) reference = nll;
      for (size_t at = 0; at < n_; at += options_.bucket) figures.buckets.push_back(summarise(nll, reference, at, std::min(at + options_.bucket, n_)));
      figures.all = summarise(nll, reference, 0, n_);
      report.columns.push_back(std::move(figures));
    }
    return report;
  }

 private:
  std::unique_ptr<Session::Impl> open(const StreamColumn& column, size_t n_ctx) const {
    SessionOptions options = options_.session;
    options.n_ctx = n_ctx;
    options.kv_window = column.window;
    options.kv_sinks = column.sinks;
    options.kv_heavy = column.heavy;
    return std::make_unique<Session::Impl>(engine_, options, layout_options(engine_->impl(), options));
  }

  void step(Session::Impl& session, std::span<const TokenId> tokens, bool wants_logits) {
    if (session.step(tokens, wants_logits ? tokens.size() : 0, logits_.data(), options_.cancelled) == StepStatus::kCancelled) throw_error(ErrorKind::kInterrupted, "interrupted");
  }

  /// The whole text through one cache.
  std::vector<double> read(const StreamColumn& column, StreamFigures& figures) {
    std::vector<double> nll(n_, kNotScored);
    const auto session = open(column, n_);
    const size_t slab = std::min(kSlab, options_.session.batch);
    for (size_t at = 0; at < n_; at += slab) {
      const auto part = std::span(tokens_).subspan(at, std::min(slab, n_ - at));
      step(*session, part, true);
      score(at, part.size(), nll);
      if (options_.on_progress) options_.on_progress(column.name, at + part.size(), n_);
    }
    figures.committed_bytes = session->cache.committed_bytes();
    return nll;
  }

  /// Every `stride` tokens, the last ones as a text of their own.
  std::vector<double> recompute(const StreamColumn& column, StreamFigures& figures) {
    std::vector<double> nll(n_, kNotScored);
    const auto session = open({}, column.recompute);
    for (size_t end = options_.stride; end <= n_; end += options_.stride) {
      const size_t begin = end - std::min<size_t>(end, column.recompute), first = end - options_.n_scored;
      std::vector<TokenId> window(tokens_.begin() + ptrdiff_t(begin), tokens_.begin() + ptrdiff_t(end));
      if (engine_->bos() >= 0) window[0] = engine_->bos();
      session->forget();
      for (size_t at = begin; at < end;) {
        const bool scored = at >= first;
        const size_t n = std::min({scored ? kSlab : options_.session.batch, (scored ? end : first) - at});
        step(*session, std::span(window).subspan(at - begin, n), scored);
        if (scored) score(at, n, nll);
        at += n;
      }
      figures.committed_bytes = session->cache.committed_bytes();
      if (options_.on_progress) options_.on_progress(column.name, end, n_);
    }
    return nll;
  }

  /// Predictions of positions [at, at + n), whose logits are at hand.
  void score(size_t at, size_t n, std::vector<double>& nll) {
    run_team(engine_->threads(), [&](Worker& worker) {
      worker.for_chunks(n, [&](size_t i) {
        const float* row = logits_.data() + i * n_vocab_;
        const Softmax softmax(*engine_->impl().kernels.vector, row, n_vocab_, exps_[size_t(worker.index())].data());
        nll[at + i] = -softmax.log_probability(row[tokens_[at + i + 1]]);
      });
    });
  }

  static StreamBucket summarise(const std::vector<double>& nll, const std::vector<double>& reference, size_t begin, size_t end) {
    StreamBucket b;
    for (size_t i = begin; i < end; ++i) {
      if (std::isnan(nll[i])) continue;
      b.nll += nll[i];
      ++b.n;
      if (std::isnan(reference[i])) continue;
      b.compared += nll[i];
      b.reference += reference[i];
      ++b.n_compared;
    }
    if (b.n) b.nll /= double(b.n);
    if (b.n_compared) {
      b.compared /= double(b.n_compared);
      b.reference /= double(b.n_compared);
    }
    return b;
  }

  std::shared_ptr<Engine> engine_;
  const StreamOptions& options_;
  size_t n_vocab_, n_ = 0;
  std::vector<TokenId> tokens_;          ///< [n_ + 1]
  std::vector<float> logits_;            ///< [kSlab, n_vocab]
  std::vector<std::vector<float>> exps_; ///< one per worker, [n_vocab]
};

}  // namespace

StreamReport measure_stream(const std::shared_ptr<Engine>& engine, std::span<const TokenId> tokens, const StreamOptions& options) {
  QUERN_CHECK(!options.columns.empty(), "no column to measure");
  return Stream(engine, tokens, options).run();
}

}  // namespace quern
