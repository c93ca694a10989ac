// The scalar float conversions against arithmetic that needs no bit tricks.
#include "base/fp.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

using namespace quern;

namespace {

/// The nearest of all finite values to x, ties to the even code; the slow and obvious way.
template <typename Decode>
uint32_t nearest(float x, uint32_t n_codes, Decode decode) {
  uint32_t best = 0;
  double best_error = INFINITY;
  for (uint32_t code = 0; code < n_codes; ++code) {
    const double error = std::fabs(double(decode(code)) - double(std::fabs(x)));
    if (error < best_error || (error == best_error && code % 2 == 0)) best = code, best_error = error;
  }
  return best;
}

}  // namespace

TEST_CASE("f16 round trip is exact for every code") {
  for (uint32_t code = 0; code < 0x10000; ++code) {
    const float f = f16_to_f32(uint16_t(code));
    if (std::isnan(f)) continue;
    REQUIRE(f32_to_f16(f) == code);
  }
  CHECK(f16_to_f32(0x3c00) == 1.0f);
  CHECK(f16_to_f32(0x0001) == 0x1p-24f);
  CHECK(f16_to_f32(0x7bff) == 65504.0f);
  CHECK(std::isinf(f16_to_f32(0x7c00)));
  CHECK(f32_to_f16(65520.0f) == 0x7c00);
  CHECK(f32_to_f16(65519.0f) == 0x7bff);
}

TEST_CASE("f16 rounds to nearest even") {
  for (const float x : {1.00048828125f, 1.00146484375f, 3.0e-8f, 8.9e-8f, 5.9604645e-8f, 0.1f, 2047.5f, 2049.0f}) {
    CHECK(f32_to_f16(x) == nearest(x, 0x7c00, [](uint32_t c) { return f16_to_f32(uint16_t(c)); }));
  }
}

TEST_CASE("e4m3 rounds to nearest even, saturates, and is never NaN for a finite number") {
  for (uint32_t code = 0; code < 256; ++code) {
    const float f = e4m3_to_f32(uint8_t(code));
    if (!std::isnan(f)) REQUIRE(f32_to_e4m3(f) == code);
  }
  for (float x = 0x1p-12f; x < 460; x *= 1.013f) {
    REQUIRE(f32_to_e4m3(x) == nearest(x, 0x7f, [](uint32_t c) { return e4m3_to_f32(uint8_t(c)); }));
  }
  CHECK(e4m3_to_f32(f32_to_e4m3(1e30f)) == 448.0f);
  CHECK(e4m3_to_f32(f32_to_e4m3(-INFINITY)) == -448.0f);
}

TEST_CASE("bf16 keeps the upper half, rounded") {
  CHECK(bf16_to_f32(f32_to_bf16(1.0f)) == 1.0f);
  CHECK(f32_to_bf16(std::bit_cast<float>(0x3f808000u)) == 0x3f80);
  CHECK(f32_to_bf16(std::bit_cast<float>(0x3f818000u)) == 0x3f82);
  CHECK(std::isnan(bf16_to_f32(f32_to_bf16(NAN))));
}
