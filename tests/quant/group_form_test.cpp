// The integer form of every format against its decoding.
#include "quant/group_form.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>

#include "kernels/random_weights.h"
#include "quant/decode.h"

using namespace quern;

namespace {

/// The largest difference between D·s·(code − offset) + M·m and decode_row, over the row's largest magnitude.
double worst_error(const GroupForm& form, const std::vector<WeightGroup>& groups, const std::vector<float>& decoded) {
  double worst = 0, largest = 0;
  for (size_t i = 0; i < decoded.size(); ++i) {
    const WeightGroup& g = groups[i / 32];
    const size_t half = i / 16 % 2;
    double value = double(g.D) * g.s[half] * (int(g.codes[i % 32]) - form.offset);
    if (form.has_mins()) value += double(g.M) * g.m[half];
    worst = std::max(worst, std::abs(value - double(decoded[i])));
    largest = std::max(largest, std::abs(double(decoded[i])));
  }
  return largest > 0 ? worst / largest : worst;
}

}  // namespace

TEST_CASE("the integer form of every format equals its decoding, within the bounds of its table row") {
  Rng rng(11);
  size_t n_forms = 0;
  for (const FormatInfo& format : all_formats()) {
    const GroupForm* form = find_group_form(format.type);
    INFO(format.name);
    CHECK((form != nullptr) == (format.is_quantized && format.can_decode));
    if (!form) continue;
    ++n_forms;
    for (int round = 0; round < 50; ++round) {
      const std::vector<std::byte> row = test::random_weights(format.type, 1, 512, rng, test::Factors::kUsual, round < 2 ? round * 255 : -1);
      std::vector<WeightGroup> groups(16);
      for (size_t g = 0; g < 16; g += format.block_elems / 32) {
        unpack_groups(format.type, row.data() + g * 32 / format.block_elems * format.block_bytes, groups.data() + g);
      }
      std::vector<float> decoded(512);
      decode_row(format.type, row.data(), decoded.data(), decoded.size());
      CHECK(worst_error(*form, groups, decoded) < 1e-6);
      for (WeightGroup& g : groups) {
        for (const uint8_t code : g.codes) REQUIRE(code <= form->max_code);
        for (int half = 0; half < 2; ++half) {
          REQUIRE(std::abs(g.s[half]) <= form->max_scale);
          REQUIRE((!form->has_mins() || (g.m[half] >= 0 && g.m[half] <= form->max_min)));
        }
        REQUIRE((form->has_half_scales || g.s[0] == g.s[1]));
        REQUIRE((form->has_half_scales || !form->has_mins() || g.m[0] == g.m[1]));
      }
      groups[3].codes[17] ^= 1;  // the planted fault
      CHECK((worst_error(*form, groups, decoded) > 1e-6 || groups[3].s[1] == 0 || decoded[3 * 32 + 17] == 0));
    }
  }
  CHECK(n_forms == kGroupForms.size());
}
