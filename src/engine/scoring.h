// Logits as probabilities, for measuring: nothing of it reaches logits or the sampler.
#pragma once
#include <cstddef>

#include "base/trig.h"
#include "kernels/kernels.h"

namespace quern {

/// Logits as a distribution: their maximum, and the sum of exp(x − max) in double.
struct Softmax {
  double max = 0, log_sum = 0;
  /// Leaves exp(x − max) in `exps` [n].
  Softmax(const kernels::VectorKernels& kernels, const float* logits, size_t n, float* exps) {
    const float top = kernels.max(logits, n);
    kernels.exp_sum(logits, top, exps, n);
    double sum = 0;
    for (size_t i = 0; i < n; ++i) sum += double(exps[i]);
    max = double(top);
    log_sum = log_f64(sum);
  }
  double log_probability(float logit) const { return double(logit) - max - log_sum; }
};

}  // namespace quern
