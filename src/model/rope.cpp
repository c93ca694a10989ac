// Angles in double from our own routines, rounded to float once.
#include "model/rope.h"

#include <algorithm>

#include "base/trig.h"

namespace quern {
namespace {

constexpr size_t kMostPieces = 1024;  // in the table of a sequence; angles of later pieces are computed when they are wanted
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

namespace {

/// Cosine and sine of one position without the magnitude, `stride` floats between the two and twice that between pairs.
void plain_angles(const RopeTable& table, size_t position, size_t stride, float* out) {
  for (size_t i = 0; i < table.n_pairs(); ++i) {
    const CosSin angle = cos_sin_f64(double(position) * table.inv_freq[i]);
    out[2 * i * stride] = float(angle.cos);
    out[(2 * i + 1) * stride] = float(angle.sin);
  }
}

}  // namespace

void add_frame_angles(RopeTable& table, size_t n_positions) {
  const size_t n_pieces = std::min(kMostPieces, (n_positions + kPiecePositions - 1) / kPiecePositions), width = 2 * table.n_pairs();
  if (table.offsets.empty()) {
    table.offsets.resize(width * kPiecePositions);
    for (size_t i = 0; i < kPiecePositions; ++i) plain_angles(table, i, kPiecePositions, table.offsets.data() + i);
  }
  for (size_t at = table.pieces.size(); at < n_pieces * width; at += width) {
    table.pieces.resize(at + width);
    plain_angles(table, at / width * kPiecePositions, 1, table.pieces.data() + at);
  }
}

const float* rope_piece_angles(const RopeTable& table, size_t piece, float* scratch) {
  const size_t width = 2 * table.n_pairs();
  if ((piece + 1) * width <= table.pieces.size()) return table.pieces.data() + piece * width;
  plain_angles(table, piece * kPiecePositions, 1, scratch);
  return scratch;
}

KeyTurn key_turn(const RopeTable& table, RopePairing pairing) {
  if (pairing == RopePairing::kNone) return {};
  return {table.n_pairs(), pairing == RopePairing::kInterleaved, table.offsets.data()};
}

void rope_cos_sin(const RopeTable& table, size_t position, float* cos_sin) {
  for (size_t i = 0; i < table.n_pairs(); ++i) {
    const CosSin angle = cos_sin_f64(double(position) * table.inv_freq[i]);
    cos_sin[2 * i] = float(angle.cos) * table.magnitude;
    cos_sin[2 * i + 1] = float(angle.sin) * table.magnitude;
  }
}

}  // namespace quern
