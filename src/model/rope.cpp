// Angles in double from our own routines, rounded to float once.
#include "model/rope.h"

#include <algorithm>

#include "base/trig.h"

namespace quern {
namespace {

constexpr double kPi = 3.14159265358979323846;

/// The pair whose wavelength turns n_rotations times within the original context (YaRN, section 3.2).
double yarn_pair(const RopeParams& p, double n_rotations) {
  return p.n_dims * log_f64(p.original_ctx / (n_rotations * 2.0 * kPi)) / (2.0 * log_f64(p.base));
}

double floor_f64(double x) {
  const double whole = double(int64_t(x));
  return whole > x ? whole - 1.0 : whole;
}

/// 1: keep the frequency, 0: interpolate, in between a ramp.
double yarn_keep(const RopeParams& p, size_t pair) {
  const double low = std::max(0.0, floor_f64(yarn_pair(p, p.yarn_beta_fast)));
  const double high = std::min(double(p.n_dims) - 1.0, -floor_f64(-yarn_pair(p, p.yarn_beta_slow)));
  const double ramp = (double(pair) - low) / std::max(0.001, high - low);
  return 1.0 - std::clamp(ramp, 0.0, 1.0);
}

}  // namespace

RopeTable make_rope_table(const RopeParams& p, std::span<const float> factors) {
  RopeTable table;
  table.magnitude = p.attn_factor;
  if (p.scaling == RopeScaling::kYarn && p.yarn_log_multiplier == 0.0f) table.magnitude *= float(1.0 + 0.1 * log_f64(p.factor));
  table.inv_freq.resize(p.n_dims / 2);
  for (size_t i = 0; i < table.inv_freq.size(); ++i) {
    double freq = pow_f64(p.base, -2.0 * double(i) / p.n_dims);
    if (!factors.empty()) freq /= factors[i];
    if (p.scaling == RopeScaling::kLinear) freq /= p.factor;
    if (p.scaling == RopeScaling::kYarn) {
      const double keep = yarn_keep(p, i);
      freq = freq / p.factor * (1.0 - keep) + freq * keep;
    }
    table.inv_freq[i] = freq;
  }
  return table;
}

void rope_cos_sin(const RopeTable& table, size_t position, float* cos_sin) {
  for (size_t i = 0; i < table.n_pairs(); ++i) {
    const CosSin angle = cos_sin_f64(double(position) * table.inv_freq[i]);
    cos_sin[2 * i] = float(angle.cos) * table.magnitude;
    cos_sin[2 * i + 1] = float(angle.sin) * table.magnitude;
  }
}

}  // namespace quern
