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

/// llama.cpp's way: the text is cut into chunks of n_ctx tokens, each starts from an empty cache (its first token replaced by BOS where
/// the model asks for one), and the tokens of its second half are scored.
/// @throws Error(kUsage) where the text does not fill one chunk, Error(kInterrupted), and what Session throws.
PerplexityReport measure_perplexity(const std::shared_ptr<Engine>& engine, std::span<const TokenId> tokens, const PerplexityOptions& options);

}  // namespace quern
