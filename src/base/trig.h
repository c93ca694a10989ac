// Double-precision log, exp, power, sine and cosine of our own: libm picks variants by CPU, and rope angles reach the logits.
// Scalar, the same operations everywhere, within about 1e-15 relative (sine and cosine: absolute, for |x| < 1.6e6, more positions than any context has).
#pragma once

namespace quern {

double log_f64(double x);             ///< natural logarithm of x > 0
double exp_f64(double x);             ///< |x| < 700
double pow_f64(double x, double y);   ///< x > 0
struct CosSin { double cos, sin; };
CosSin cos_sin_f64(double x);

}  // namespace quern
