// What a KV cache type costs in quality: perplexity of a text, and how far each cache's predictions lie from those of the
// f32 cache of the same engine.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "quern/engine.h"

namespace quern {

struct KvTypePair {
  std::string k, v;
};

struct PerplexityOptions {
  SessionOptions session;               ///< n_ctx: tokens of a chunk (≥ 4); the types are those of `caches`
  size_t n_chunks = 0;                  ///< 0: all that the text fills
  std::vector<KvTypePair> caches;       ///< ≥ 1
  bool compare = false;                 ///< measure the caches against an f32 one without policy, which is then measured too and comes first
  const std::atomic<bool>* cancelled = nullptr;
  std::function<void(size_t done, size_t total)> on_progress;  ///< chunks
};

/// One cache's figures over all scored tokens. Those of the comparison are 0 where there is none.
struct CacheQuality {
  KvTypePair types;
  std::string policy;                   ///< as KvReport says it
  uint64_t bytes_per_token = 0;         ///< scales included, all layers
  double bits_per_value = 0;
  double nll = 0;                       ///< mean negative log-likelihood of a token, nats
  double perplexity = 0, perplexity_error = 0;   ///< exp(nll), and its standard error
  double ratio = 0, ratio_error = 0;    ///< perplexity / the f32 cache's, from the paired differences
  double kl_mean = 0, kl_p99 = 0, kl_max = 0;    ///< KL divergence of a position, f32 cache to this one, nats
  double top1_agreement = 0;            ///< share of positions whose likeliest token is the same
  double rms_logit_error = 0;           ///< over all logits of all scored positions
};

struct PerplexityReport {
  size_t n_ctx = 0, n_chunks = 0, n_scored = 0;  ///< tokens of a chunk, chunks, tokens scored
  std::vector<CacheQuality> caches;
};

/// One way of remembering a long text.
struct StreamColumn {
  enum class Kind { kCache, kRecompute };
  Kind kind = Kind::kCache;
  std::string name;                     ///< as the user wrote it
  uint32_t window = 0, sinks = 0, heavy = 0;  ///< kCache: as in SessionOptions; all 0: everything is kept
  uint32_t recompute = 0;               ///< kRecompute: the last so many tokens, computed from an empty cache
};

struct StreamOptions {
  SessionOptions session;               ///< types and batch; context and policy are the columns'
  size_t n_tokens = 0;                  ///< predictions to score; 0: all that the text has
  size_t bucket = 1000;                 ///< predictions of a row of the report
  size_t stride = 100, n_scored = 16;   ///< kRecompute: computed anew every `stride` tokens, the last n_scored predictions of each are scored
  std::vector<StreamColumn> columns;    ///< ≥ 1; the first is what the others are compared with
  const std::atomic<bool>* cancelled = nullptr;
  std::function<void(const std::string& column, size_t done, size_t total)> on_progress;  ///< tokens
};

/// Mean negative log-likelihoods in nats over the predictions of a bucket.
struct StreamBucket {
  double nll = 0;                       ///< of all predictions that the column scored
  double compared = 0, reference = 0;   ///< of those that the first column scored too, here and there
  size_t n = 0, n_compared = 0;
};

struct StreamFigures {
  StreamColumn column;
  std::vector<StreamBucket> buckets;
  StreamBucket all;
  uint64_t committed_bytes = 0;         ///< of the cache at the end
};

struct StreamReport {
  size_t n_tokens = 0, bucket = 0;
  std::vector<StreamFigures> columns;
};

/// Reads a text once from beginning to end, every token given as it stands there (teacher-forced), and scores each prediction: how a
/// cache that forgets holds out over a long text. A text of the model's own falls into repetition and looks good whatever is forgotten.
/// @throws Error(kUsage) where the text is too short or a column makes no sense, Error(kInterrupted), and what Session throws.
StreamReport measure_stream(const std::shared_ptr<Engine>& engine, std::span<const TokenId> tokens, const StreamOptions& options);

/// llama.cpp's way: the text is cut into chunks of n_ctx tokens, each starts from an empty cache (its first token replaced by BOS where
/// the model asks for one), and the tokens of its second half are scored.
/// @throws Error(kUsage) where the text does not fill one chunk, Error(kInterrupted), and what Session throws.
PerplexityReport measure_perplexity(const std::shared_ptr<Engine>& engine, std::span<const TokenId> tokens, const PerplexityOptions& options);

}  // namespace quern
