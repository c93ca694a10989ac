// Textbook argument reduction and Taylor series; speed hardly matters (a few thousand calls per step).
#include "base/trig.h"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace quern {
namespace {

// ln 2 and pi/2 in two and three parts; the leading ones end in enough zeros that n times them is exact.
constexpr double kLn2High = 0x1.62e42feep-1, kLn2Low = 0x1.a39ef35793c76p-33;
constexpr double kHalfPi1 = 0x1.921fb54400000p0, kHalfPi2 = 0x1.0b4611a600000p-34, kHalfPi3 = 0x1.3198a2e037073p-69;
constexpr double kRoundToWhole = 0x1.8p52;

constexpr auto kInverseFactorial = [] {
  std::array<double, 22> table{};
  double factorial = 1.0;  // exact up to 18!, and rounded the same way everywhere after that
  for (std::size_t k = 0; k < table.size(); ++k) {
    if (k > 1) factorial *= double(k);
    table[k] = 1.0 / factorial;
  }
  return table;
}();

}  // namespace

double log_f64(double x) {
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  int exponent = int(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0xfffffffffffffull) | 0x3ff0000000000000ull);
  if (m > 1.4142135623730951) m *= 0.5, ++exponent;
  const double z = (m - 1.0) / (m + 1.0), z2 = z * z;  // ln m = 2 artanh z, |z| < 0.172
  double series = 0.0;
  for (int k = 25; k >= 3; k -= 2) series = (series + 1.0 / k) * z2;
  return double(exponent) * kLn2High + (2.0 * z + (2.0 * z * series + double(exponent) * kLn2Low));
}

double exp_f64(double x) {
  const double n = (x * 1.4426950408889634 + kRoundToWhole) - kRoundToWhole;
  const double r = (x - n * kLn2High) - n * kLn2Low;
  double series = 1.0;
  for (int k = 18; k >= 1; --k) series = 1.0 + series * r / k;
  return series * std::bit_cast<double>(uint64_t(int64_t(n) + 1023) << 52);
}

double pow_f64(double x, double y) { return exp_f64(y * log_f64(x)); }

CosSin cos_sin_f64(double x) {
  const double n = (x * 0.63661977236758134 + kRoundToWhole) - kRoundToWhole;
  const double r = ((x - n * kHalfPi1) - n * kHalfPi2) - n * kHalfPi3;
  const double r2 = r * r;
  double s = 0.0, c = 0.0;  // Horner over 1/k!, |r| < 0.79
  for (int k = 20; k >= 2; k -= 2) {
    c = (c + kInverseFactorial[k]) * -r2;
    s = (s + kInverseFactorial[k + 1]) * -r2;
  }
  c += 1.0;
  s = r + r * s;
  switch (int64_t(n) & 3) {
    case 0: return {c, s};
    case 1: return {-s, c};
    case 2: return {-c, -s};
    default: return {s, -c};
  }
}

}  // namespace quern
