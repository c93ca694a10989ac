// The inside of a feed-forward part, dense or an expert's.
#pragma once
#include <cstddef>

#include "kernels/kernels.h"
#include "model/archs.h"

namespace quern::ops {

inline constexpr float kSwigluLimit = 7.0f;  ///< no file states another

/// out = act(gate) · up, or act(up) where gate is null. out may be either.
inline void activate(const kernels::VectorKernels& k, Activation activation, const float* gate, const float* up, float* out, size_t n) {
  const float* inner = gate ? gate : up;
  const float* factor = gate ? up : nullptr;
  switch (activation) {
    case Activation::kSilu: return k.silu_mul(inner, factor, out, n);
    case Activation::kGelu: return k.gelu_mul(inner, factor, out, n);
    case Activation::kReluSquared: return k.relu_squared_mul(inner, factor, out, n);
    case Activation::kClampedSwiglu: return k.clamped_swiglu_mul(inner, factor, kSwigluLimit, out, n);
  }
}

}  // namespace quern::ops
