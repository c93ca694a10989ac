// All caches walk a chunk side by side, a slab of positions at a time, so that only the reference's logits of one slab and those
// of one other cache are held at once (a vocabulary of 262,144 makes 1 MiB a position).
// The C library's exp and log may be used here: nothing of it reaches logits or the sampler.
#include "quern/perplexity.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "engine/engine_impl.h"
#include "engine/scoring.h"
#include "parallel/team.h"

namespace quern {
namespace {

constexpr size_t kSlab = 64;  // positions whose logits are held at once

/// One scored position of one cache.
struct Score {
  double nll = 0, kl = 0, squared_error = 0;
  bool same_top = false;
};

struct Moments {
  double mean = 0, error = 0;  // error: standard error of the mean
};

Moments moments(const std::vector<double>& values) {
  Moments m;
  for (const double v : values) m.mean += v;
  m.mean /= double(values.size());
  double squares = 0;
  for (const double v : values) squares += (v - m.mean) * (v - m.mean);
  if (values.size() > 1) m.error = std::sqrt(squares / double(values.size()) / double(values.size() - 1));
  return m;
}

Score score(const kernels::VectorKernels& kernels, const float* logits, const float* reference, size_t n, TokenId next, float* exps) {
  Score s;
  const Softmax mine(kernels, logits, n, exps);
  s.nll = -mine.log_probability(logits[next]);
  if (!reference) return s;
  const Softmax theirs(kernels, reference, n, exps);
  double weighted = 0;
  for (size_t i = 0; i < n; ++i) {
    const double difference = double(reference[i]) - double(logits[i]);
    weighted += double(exps[i]) * difference;
    s.squared_error += difference * difference;
  }
  s.kl = std::max(0.0, weighted / std::exp(theirs.log_sum) - (theirs.max + theirs.log_sum) + (mine.max + mine.log_sum));
  s.same_top = kernels.argmax(logits, n) == kernels.argmax(reference, n);
  return s;
}

class Measurement {
 public:
  Measurement(const std::shared_ptr<Engine>& engine, std::span<const TokenId> tokens, const PerplexityOptions& options)
      : engine_(engine), options_(options), n_vocab_(engine->info().n_vocab), n_ctx_(options.session.n_ctx) {
    if (n_ctx_ < 4) throw_error(ErrorKind::kUsage, "a chunk of {} tokens is too short to score half of it; give -c 4 or more", n_ctx_);
    n_chunks_ = tokens.size() / n_ctx_;
    if (n_chunks_ == 0) throw_error(ErrorKind::kUsage, "the text has {} tokens, which do not fill one chunk of {}; give a longer text or a smaller -c", tokens.size(), n_ctx_);
    if (options.n_chunks > n_chunks_) throw_error(ErrorKind::kUsage, "the text fills {} chunks of {} tokens, but --chunks is {}", n_chunks_, n_ctx_, options.n_chunks);
    if (options.n_chunks > 0) n_chunks_ = options.n_chunks;
    tokens_.assign(tokens.begin(), tokens.begin() + ptrdiff_t(n_chunks_ * n_ctx_));
    if (engine->bos() >= 0) {
      for (size_t chunk = 0; chunk < n_chunks_; ++chunk) tokens_[chunk * n_ctx_] = engine->bos();
    }
    SessionOptions everything = options.session;  // the reference forgets nothing
    everything.kv_window = everything.kv_sinks = everything.kv_heavy = 0;
    if (options.compare) add_cache({"f32", "f32"}, everything);
    const bool forgets = options.session.kv_window > 0 || options.session.kv_heavy > 0;
    for (const KvTypePair& types : options.caches) {
      if (!options.compare || forgets || types.k != "f32" || types.v != "f32") add_cache(types, options.session);
    }
    logits_.resize(kSlab * n_vocab_);
    if (options.compare) reference_.resize(kSlab * n_vocab_);
    for (int i = 0; i < engine->threads(); ++i) exps_.emplace_back(n_vocab_);
  }

  PerplexityReport run() {
    for (size_t chunk = 0; chunk < n_chunks_; ++chunk) {
      walk(std::span(tokens_).subspan(chunk * n_ctx_, n_ctx_));
      if (options_.on_progress) options_.on_progress(chunk + 1, n_chunks_);
    }
    PerplexityReport report;
    report.n_ctx = n_ctx_;
    report.n_chunks = n_chunks_;
    report.n_scored = caches_[0].scores.size();
    for (const Cache& cache : caches_) report.caches.push_back(quality(cache));
    return report;
  }

 private:
  struct Cache {
    KvTypePair types;
    std::unique_ptr<Session::Impl> session;
    std::vector<Score> scores;
  };

  void add_cache(const KvTypePair& types, SessionOptions options) {
    options.k_type = types.k;
    options.v_type = types.v;
    caches_.push_back({types, std::make_unique<Session::Impl>(engine_, options, layout_options(engine_->impl(), options)), {}});
  }

  void walk(std::span<const TokenId> chunk) {
    const size_t first = n_ctx_ / 2;  // the position whose prediction is scored first
    for (Cache& cache : caches_) {
      cache.session->cache.rewind(0);
      cache.session->tokens.clear();
      for (size_t at = 0; at < first; at += options_.session.batch) step(cache, chunk.subspan(at, std::min(options_.session.batch, first - at)), 0, nullptr);
    }
    for (size_t at = first; at + 1 < n_ctx_; at += kSlab) {
      const auto slab = chunk.subspan(at, std::min(kSlab, n_ctx_ - 1 - at));
      for (size_t i = 0; i < caches_.size(); ++i) {
        const bool is_reference = options_.compare && i == 0;
        float* logits = is_reference ? reference_.data() : logits_.data();
        step(caches_[i], slab, slab.size(), logits);
        score_slab(caches_[i], logits, options_.compare && !is_reference ? reference_.data() : nullptr, chunk.subspan(at + 1, slab.size()));
      }
    }
  }

  void step(Cache& cache, std::span<const TokenId> tokens, size_t n_logits, float* out) {
    for (size_t done = 0; done < tokens.size();) {
      const auto part = tokens.subspan(done, std::min(options_.session.batch, tokens.size() - done));
      if (cache.session->step(part, n_logits ? part.size() : 0, out + done * n_vocab_, options_.cancelled) == StepStatus::kCancelled) throw_error(ErrorKind::kInterrupted, "interrupted");
      done += part.size();
    }
  }

  void score_slab(Cache& cache, const float* logits, const float* reference, std::span<const TokenId> next) {
    const size_t before = cache.scores.size();
    cache.scores.resize(before + next.size());
    const kernels::VectorKernels& kernels = *engine_->impl().kernels.vector;
    run_team(engine_->threads(), [&](Worker& worker) {
      worker.for_chunks(next.size(), [&](size_t i) {
        cache.scores[before + i] = score(kernels, logits + i * n_vocab_, reference ? reference + i * n_vocab_ : nullptr, n_vocab_, next[i], exps_[size_t(worker.index())].data());
      });
    });
  }

  CacheQuality quality(const Cache& cache) const {
    CacheQuality q;
    q.types = cache.types;
    const KvLayout& layout = cache.session->cache.layout();
    q.policy = policy_name(layout.options().policy);
    q.bytes_per_token = layout.bytes_per_token();
    uint64_t values = 0;
    for (const KvLayerGeometry& g : kv_geometry(engine_->impl().model.params)) values += uint64_t(g.n_kv_heads) * (g.k_dim + g.v_dim);
    q.bits_per_value = 8.0 * double(q.bytes_per_token) / double(values);
    std::vector<double> nll;
    for (const Score& s : cache.scores) nll.push_back(s.nll);
    const Moments m = moments(nll);
    q.nll = m.mean;
    q.perplexity = std::exp(m.mean);
    q.perplexity_error = q.perplexity * m.error;
    if (options_.compare) compare(cache, nll, q);
    return q;
  }

  void compare(const Cache& cache, std::vector<double> nll, CacheQuality& q) const {
    std::vector<double> kl;
    double squares = 0, same = 0;
    for (size_t i = 0; i < nll.size(); ++i) {
      const Score& s = cache.scores[i];
      nll[i] -= caches_[0].scores[i].nll;
      kl.push_back(s.kl);
      squares += s.squared_error;
      same += s.same_top || &cache == &caches_[0] ? 1.0 : 0.0;
    }
    const Moments difference = moments(nll);
    q.ratio = std::exp(difference.mean);
    q.ratio_error = q.ratio * difference.error;
    q.kl_mean = moments(kl).mean;
    std::sort(kl.begin(), kl.end());
    q.kl_max = kl.back();
    q.kl_p99 = kl[(kl.size() - 1) * 99 / 100];
    q.top1_agreement = same / double(kl.size());
    q.rms_logit_error = std::sqrt(squares / (double(kl.size()) * double(n_vocab_)));
  }

  std::shared_ptr<Engine> engine_;
  const PerplexityOptions& options_;
  size_t n_vocab_, n_ctx_, n_chunks_ = 0;
  std::vector<TokenId> tokens_;
  std::vector<Cache> caches_;
  std::vector<float> logits_, reference_;      ///< [kSlab, n_vocab]
  std::vector<std::vector<float>> exps_;       ///< one per worker, [n_vocab]
};

}  // namespace

PerplexityReport measure_perplexity(const std::shared_ptr<Engine>& engine, std::span<const TokenId> tokens, const PerplexityOptions& options) {
  QUERN_CHECK(!options.caches.empty(), "no cache to measure");
  return Measurement(engine, tokens, options).run();
}

}  // namespace quern
