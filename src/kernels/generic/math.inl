// exp and what is built on it, over the lane vocabulary of the including folder: our own polynomials, because libm picks
// variants by CPU and would break the same-bits rule. Reduction after Cody and Waite, polynomial of degree 6; at most
// 2 ulp from the true value on [-87.3, 88].
#pragma once

namespace quern::kernels::QUERN_ISA {
namespace {

/// exp(0) is exactly 1, below −87.3 exactly 0, above 88 held at exp(88); NaN stays NaN.
inline F32x16 exp16(F32x16 x) {
  const F32x16 clamped = min(set1(88.0f), x);
  const F32x16 shift = set1(12582912.0f);  // 1.5·2^23: adding it rounds to a whole number
  const F32x16 shifted = fma(clamped, set1(1.44269504f), shift);
  const F32x16 n = sub(shifted, shift);
  F32x16 r = fnma(n, set1(0.693359375f), clamped);
  r = fnma(n, set1(-2.12194440e-4f), r);
  F32x16 p = set1(1.9875691500e-4f);
  p = fma(p, r, set1(1.3981999507e-3f));
  p = fma(p, r, set1(8.3334519073e-3f));
  p = fma(p, r, set1(4.1665795894e-2f));
  p = fma(p, r, set1(1.6666665459e-1f));
  p = fma(p, r, set1(5.0000001201e-1f));
  const F32x16 y = add(fma(p, mul(r, r), r), set1(1.0f));
  return select(less(x, set1(-87.3f)), zero(), mul(y, exp2_of_shifted(shifted)));
}

/// 1 − 2/(exp(2x) + 1)
inline F32x16 tanh16(F32x16 x) {
  const F32x16 one = set1(1.0f);
  return sub(one, div(set1(2.0f), add(exp16(add(x, x)), one)));
}

/// x / (1 + exp(−y))
inline F32x16 times_sigmoid16(F32x16 x, F32x16 y) { return div(x, add(set1(1.0f), exp16(sub(zero(), y)))); }

/// One number through the same sequence.
[[maybe_unused]] inline float exp1(float x) {
  float lanes16[16];
  store(lanes16, exp16(set1(x)));
  return lanes16[0];
}

}  // namespace
}  // namespace quern::kernels::QUERN_ISA
