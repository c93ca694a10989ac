// Our double-precision functions against libm.
#include "base/trig.h"

#include <catch2/catch.hpp>
#include <cmath>

using namespace quern;

TEST_CASE("log, exp and pow agree with libm") {
  for (double x = 1e-6; x < 1e9; x *= 1.0317) {
    REQUIRE(std::fabs(log_f64(x) - std::log(x)) <= 2e-15 * (1 + std::fabs(std::log(x))));
    REQUIRE(std::fabs(pow_f64(x, -0.37) / std::pow(x, -0.37) - 1) < 1e-14);
  }
  for (double x = -80; x < 80; x += 0.0371) REQUIRE(std::fabs(exp_f64(x) / std::exp(x) - 1) < 1e-14);
  CHECK(exp_f64(0.0) == 1.0);
}

TEST_CASE("sine and cosine agree with libm, far from zero too") {
  for (double x = 0; x < 40; x += 0.0013) {
    REQUIRE(std::fabs(cos_sin_f64(x).sin - std::sin(x)) < 4e-16);
    REQUIRE(std::fabs(cos_sin_f64(x).cos - std::cos(x)) < 4e-16);
  }
  for (double x = 1; x < 1.6e6; x *= 1.00371) {
    REQUIRE(std::fabs(cos_sin_f64(x).sin - std::sin(x)) < 1e-15);
    REQUIRE(std::fabs(cos_sin_f64(x).cos - std::cos(x)) < 1e-15);
  }
}
