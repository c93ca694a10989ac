// The inside of a feed-forward part, dense or an expert's.
#pragma once
#include <cstddef>

#include "kernels/kernels.h"
#include "model/archs.h"

namespace quern::ops {

/// out = act(gate) · up, or act(up) where gate is null. out may be either.
inline void activate(const kernels::VectorKernels& k, Activation activation, const float* gate, const float* up, float* out, size_t n) {
  const auto kernel = [&] {
    switch (activation) {
      case Activation::kGelu: return k.gelu_mul;
      case Activation::kReluSquared: return k.relu_squared_mul;
      case Activation::kSilu: break;
    }
    return k.silu_mul;
  }();
  if (gate) kernel(gate, up, out, n);
  else kernel(up, nullptr, out, n);
}

}  // namespace quern::ops
