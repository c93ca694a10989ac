// Logits to a token, reproducibly: the same seed gives the same choice at any thread count and on any instruction set.
#pragma once
#include <span>
#include <vector>

#include "base/rng.h"
#include "kernels/kernels.h"
#include "quern/engine.h"

namespace quern {

class Sampler {
 public:
  /// @throws Error(kUsage) on a value that makes no sense, or a bias for a token that does not exist.
  Sampler(const SamplingOptions& options, size_t n_vocab, const kernels::VectorKernels& kernels);

  /// `history`: prompt and answer so far, for the repetition penalty. Order: bias, penalty, then top-k, top-p and min-p on the
  /// untempered distribution, temperature last (as llama.cpp does).
  TokenId sample(std::span<const float> logits, std::span<const TokenId> history);

  struct Candidate {
    TokenId id;
    float logit;
  };
  /// What is left after the truncations, most likely first (for tests).
  std::vector<Candidate> candidates(std::span<const float> logits, std::span<const TokenId> history);

 private:
  /// The logits with bias and penalty: themselves where there are none of either, else a copy.
  std::span<const float> adjusted(std::span<const float> logits, std::span<const TokenId> history);
  /// How many of `list`, which is sorted and has probabilities_ beside it, top-p and min-p keep; `sum` is the mass of 1.
  size_t kept(size_t n, float sum) const;

  SamplingOptions options_;
  const kernels::VectorKernels& kernels_;
  Rng rng_;
  std::vector<float> adjusted_;
  std::vector<float> probabilities_;
};

}  // namespace quern
