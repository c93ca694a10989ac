// Activation quantization and the two matmuls against their definition in kernels.h, bit for bit, on every instruction set.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/aligned.h"
#include "kernels/isa.h"
#include "kernels/random_weights.h"
#include "quant/decode.h"

using namespace quern;

namespace {

struct Activations {
  std::vector<int8_t> codes;
  std::vector<kernels::ActGroup> groups;
  size_t n_groups;
  kernels::ActRows rows() const { return {codes.data(), groups.data(), n_groups}; }
};

Activations make_activations(size_t n_tokens, size_t n_groups) {
  return {std::vector<int8_t>(n_tokens * n_groups * 32), std::vector<kernels::ActGroup>(n_tokens * n_groups), n_groups};
}

/// Random codes; every fourth token all ±127, in phase, so that sums reach their bounds.
Activations random_activations(Rng& rng, size_t n_tokens, size_t n_groups) {
  Activations x = make_activations(n_tokens, n_groups);
  for (size_t i = 0; i < x.codes.size(); ++i) {
    const size_t t = i / (n_groups * 32);
    x.codes[i] = int8_t(t % 4 == 3 ? (t % 8 == 3 ? 127 : -127) : int(rng.below(255)) - 127);
    int16_t& sum = x.groups[i / 32].sums[i / 16 % 2];
    sum = int16_t(sum + x.codes[i]);
  }
  for (kernels::ActGroup& group : x.groups) {
    group.scale = rng.uniform(0.001f, 0.1f);
    group.scaled_sum = group.scale * float(group.sums[0] + group.sums[1]);
  }
  return x;
}

/// The definition, from the groups of one row: one accumulator, ascending groups.
float reference_product(TensorType type, const std::byte* row, const Activations& x, size_t token) {
  const FormatInfo& format = format_info(type);
  const GroupForm& form = *find_group_form(type);
  WeightGroup groups[8];
  float acc = 0.0f;
  for (size_t g = 0; g < x.n_groups; ++g) {
    const size_t in_block = g % (format.block_elems / 32);
    if (in_block == 0) unpack_groups(type, row + g * 32 / format.block_elems * format.block_bytes, groups);
    const WeightGroup& w = groups[in_block];
    const size_t at = token * x.n_groups + g;
    const float a = x.groups[at].scale;
    int64_t dot[2] = {0, 0}, sum[2] = {0, 0};
    for (size_t k = 0; k < 32; ++k) {
      dot[k / 16] += int64_t(w.codes[k] - form.offset) * x.codes[at * 32 + k];
      sum[k / 16] += x.codes[at * 32 + k];
    }
    if (form.has_half_scales) {
      acc = std::fma(float(w.s[0] * dot[0] + w.s[1] * dot[1]), w.D * a, acc);
      if (form.has_mins()) acc = std::fma(float(w.m[0] * sum[0] + w.m[1] * sum[1]), w.M * a, acc);
    } else {
      acc = std::fma(float(dot[0] + dot[1]), w.D * float(w.s[0]) * a, acc);
      if (form.has_mins()) acc = std::fma(w.M * float(w.m[0]), a * float(sum[0] + sum[1]), acc);
    }
  }
  return acc;
}

struct Shape {
  size_t n_rows, n_groups, n_tokens;
};

/// Runs a kernel on a copy of the weights at an odd address, into a y wider than the rows, and checks that nothing else is written.
std::vector<float> run_quant_matmul(const kernels::MatmulKernels& k, TensorType type, const std::vector<std::byte>& weights, const Activations& x, Shape s) {
  std::vector<std::byte> unaligned(weights.size() + 1);
  std::memcpy(unaligned.data() + 1, weights.data(), weights.size());
  const size_t y_stride = s.n_rows + 3;
  std::vector<float> y(s.n_tokens * y_stride, -7.0f);
  AlignedBuffer<std::byte> scratch(kernels::quant_matmul_scratch_bytes(s.n_tokens));
  k.quant_matmul({type, unaligned.data() + 1, weights.size() / s.n_rows, s.n_rows, x.rows(), s.n_tokens, y.data(), y_stride, scratch.data()});
  std::vector<float> out;
  for (size_t t = 0; t < s.n_tokens; ++t) {
    out.insert(out.end(), y.begin() + long(t * y_stride), y.begin() + long(t * y_stride + s.n_rows));
    for (size_t r = s.n_rows; r < y_stride; ++r) REQUIRE(y[t * y_stride + r] == -7.0f);
  }
  return out;
}

std::vector<float> reference_quant_matmul(TensorType type, const std::vector<std::byte>& weights, const Activations& x, Shape s) {
  std::vector<float> out;
  for (size_t t = 0; t < s.n_tokens; ++t) {
    for (size_t r = 0; r < s.n_rows; ++r) out.push_back(reference_product(type, weights.data() + r * (weights.size() / s.n_rows), x, t));
  }
  return out;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// Every instruction set against the definition.
void check_quant_matmul(TensorType type, const std::vector<std::byte>& weights, const Activations& x, Shape s) {
  INFO(format_info(type).name << " rows=" << s.n_rows << " groups=" << s.n_groups << " tokens=" << s.n_tokens);
  const std::vector<float> want = reference_quant_matmul(type, weights, x, s);
  for (const kernels::Kernels* isa : test::isas()) {
    INFO(isa->name);
    REQUIRE(same_bits(run_quant_matmul(*isa->matmul, type, weights, x, s), want));
  }
}

std::vector<TensorType> quantized_types() {
  std::vector<TensorType> types;
  for (const GroupForm& form : kGroupForms) types.push_back(form.type);
  return types;
}

Shape random_shape(Rng& rng, TensorType type) {
  const size_t block_groups = format_info(type).block_elems / 32;
  return {1 + rng.below(50), block_groups * (1 + rng.below(block_groups == 1 ? 27 : 4)), 1 + rng.below(12)};
}

}  // namespace

TEST_CASE("quant_matmul gives the definition's bits for every format, shape and instruction set") {
  Rng rng(21);
  for (const TensorType type : quantized_types()) {
    for (int round = 0; round < 30; ++round) {
      const Shape s = random_shape(rng, type);
      check_quant_matmul(type, test::random_weights(type, s.n_rows, s.n_groups * 32, rng), random_activations(rng, s.n_tokens, s.n_groups), s);
    }
  }
}

TEST_CASE("quant_matmul does not depend on how many tokens it is given") {
  Rng rng(22);
  for (const TensorType type : quantized_types()) {
    const size_t n_groups = format_info(type).block_elems == 256 ? 16 : 11;
    const std::vector<std::byte> weights = test::random_weights(type, 18, n_groups * 32, rng);
    const Activations x = random_activations(rng, 70, n_groups);
    const std::vector<float> want = reference_quant_matmul(type, weights, x, {18, n_groups, 70});
    for (const kernels::Kernels* isa : test::isas()) {
      for (size_t n = 1; n <= 70; ++n) {
        INFO(isa->name << " " << format_info(type).name << " tokens=" << n);
        const std::vector<float> got = run_quant_matmul(*isa->matmul, type, weights, x, {18, n_groups, n});
        REQUIRE(same_bits(got, {want.begin(), want.begin() + long(n * 18)}));
      }
    }
  }
}

TEST_CASE("quant_matmul holds at the extremes of codes, scales and factors") {
  Rng rng(23);
  for (const TensorType type : quantized_types()) {
    const Shape s{17, 24, 9};
    const Activations x = random_activations(rng, s.n_tokens, s.n_groups);
    for (const int fill : {0, 255, 0x80, 0x7f, -1}) {
      for (const auto kind : {test::Factors::kUsual, test::Factors::kZero, test::Factors::kLargest, test::Factors::kSmallest}) {
        check_quant_matmul(type, test::random_weights(type, s.n_rows, s.n_groups * 32, rng, kind, fill), x, s);
      }
    }
  }
}

TEST_CASE("the comparison sees one changed code") {
  Rng rng(24);
  for (const TensorType type : quantized_types()) {
    const Shape s{19, 16, 5};
    const std::vector<std::byte> weights = test::random_weights(type, s.n_rows, s.n_groups * 32, rng);
    const Activations x = random_activations(rng, s.n_tokens, s.n_groups);
    Activations changed = x;
    int8_t& code = changed.codes[(2 * s.n_groups + 9) * 32 + 20];  // token 2, second half of group 9
    const int step = code > 0 ? -1 : 1;
    code = int8_t(code + step);
    kernels::ActGroup& group = changed.groups[2 * s.n_groups + 9];
    group.sums[1] = int16_t(group.sums[1] + step);
    group.scaled_sum = group.scale * float(group.sums[0] + group.sums[1]);
    for (const kernels::Kernels* isa : test::isas()) {
      INFO(isa->name << " " << format_info(type).name);
      CHECK_FALSE(same_bits(run_quant_matmul(*isa->matmul, type, weights, changed, s), reference_quant_matmul(type, weights, x, s)));
    }
  }
}

TEST_CASE("quant_matmul approximates the product with the decoded row") {
  Rng rng(25);
  for (const TensorType type : quantized_types()) {
    const size_t n_cols = 512;
    const std::vector<std::byte> weights = test::random_weights(type, 4, n_cols, rng);
    std::vector<float> x(n_cols), row(n_cols);
    for (float& v : x) v = rng.uniform(-1.0f, 1.0f);
    for (const kernels::Kernels* isa : test::isas()) {
      Activations q = make_activations(1, n_cols / 32);
      REQUIRE(isa->matmul->quantize_row(x.data(), n_cols, q.codes.data(), q.groups.data()));
      const std::vector<float> y = run_quant_matmul(*isa->matmul, type, weights, q, {4, n_cols / 32, 1});
      for (size_t r = 0; r < 4; ++r) {
        decode_row(type, weights.data() + r * weights.size() / 4, row.data(), n_cols);
        double exact = 0, error_bound = 0;  // each activation is off by at most half a step of 1/127
        for (size_t i = 0; i < n_cols; ++i) {
          exact += double(row[i]) * double(x[i]);
          error_bound += std::abs(double(row[i])) * 0.5 / 127;
        }
        INFO(isa->name << " " << format_info(type).name);
        CHECK(std::abs(double(y[r]) - exact) <= error_bound + 1e-4 * std::abs(exact));
      }
    }
  }
}

TEST_CASE("quantize_row follows its definition at every length") {
  Rng rng(26);
  for (const kernels::Kernels* isa : test::isas()) {
    for (size_t n = 1; n <= 130; ++n) {
      std::vector<float> x(n + 1);
      const float range = n % 5 == 0 ? 1e-31f : n % 7 == 0 ? 1.5e38f : 4.0f;
      for (float& v : x) v = rng.below(4) ? rng.uniform(-range, range) : float(int(rng.below(9)) - 4) * 0.5f * (range / 4);
      const float* row = x.data() + n % 2;  // odd addresses too
      const size_t n_groups = (n + 31) / 32;
      Activations got = make_activations(1, n_groups);
      REQUIRE(isa->matmul->quantize_row(row, n, got.codes.data(), got.groups.data()));
      for (size_t g = 0; g < n_groups; ++g) {
        float amax = 0;
        for (size_t i = g * 32; i < std::min(n, g * 32 + 32); ++i) amax = std::max(amax, std::abs(row[i]));
        const bool is_zero = amax < 0x1p-100f;
        INFO(isa->name << " n=" << n << " group " << g);
        const kernels::ActGroup& group = got.groups[g];
        REQUIRE(group.scale == (is_zero ? 0.0f : amax / 127.0f));
        int sums[2] = {0, 0};
        for (size_t i = 0; i < 32; ++i) {
          const size_t at = g * 32 + i;
          const float code = at >= n || is_zero ? 0.0f : std::min(127.0f, std::max(-127.0f, std::nearbyint(row[at] * (127.0f / amax))));
          REQUIRE(got.codes[at] == int(code));
          sums[i / 16] += int(code);
        }
        REQUIRE(group.sums[0] == sums[0]);
        REQUIRE(group.sums[1] == sums[1]);
        REQUIRE(group.scaled_sum == group.scale * float(sums[0] + sums[1]));
      }
    }
  }
}

TEST_CASE("quantize_row reports what is not finite, wherever it is") {
  for (const kernels::Kernels* isa : test::isas()) {
    for (size_t n = 1; n <= 70; ++n) {
      for (size_t at = 0; at < n; ++at) {
        std::vector<float> x(n, 1.0f);
        Activations out = make_activations(1, (n + 31) / 32);
        const auto finite = [&] { return isa->matmul->quantize_row(x.data(), n, out.codes.data(), out.groups.data()); };
        REQUIRE(finite());
        for (const float bad : {NAN, -NAN, INFINITY, -INFINITY}) {
          x[at] = bad;
          REQUIRE_FALSE(finite());
        }
      }
    }
  }
}

namespace {

/// 16 lanes and the fixed tree over a decoded row.
float reference_dot(const std::vector<float>& row, const float* x) {
  float lanes[16] = {};
  for (size_t i = 0; i < (row.size() + 15) / 16 * 16; ++i) {
    const bool inside = i < row.size();
    lanes[i % 16] = std::fma(inside ? row[i] : 0.0f, inside ? x[i] : 0.0f, lanes[i % 16]);
  }
  for (size_t half = 8; half; half /= 2) {
    for (size_t l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  }
  return lanes[0];
}

void check_float_matmul(TensorType type, size_t n_rows, size_t n_cols, size_t n_tokens, Rng& rng) {
  std::vector<std::byte> weights(n_rows * row_bytes(type, n_cols));
  if (format_info(type).is_quantized) {
    weights = test::random_weights(type, n_rows, n_cols, rng);
  } else {
    for (size_t i = 0; i < n_rows * n_cols; ++i) {
      const float w = rng.uniform(-1.0f, 1.0f);
      const uint16_t half = type == TensorType::F16 ? f32_to_f16(w) : f32_to_bf16(w);
      if (type == TensorType::F32) std::memcpy(weights.data() + 4 * i, &w, 4);
      else std::memcpy(weights.data() + 2 * i, &half, 2);
    }
  }
  std::vector<std::byte> unaligned(weights.size() + 1);
  std::memcpy(unaligned.data() + 1, weights.data(), weights.size());
  const size_t x_stride = n_cols + 5, y_stride = n_rows + 2;
  std::vector<float> x(n_tokens * x_stride, NAN), want(n_tokens * n_rows), row(n_cols);  // NaN: nothing beyond a row may be read into a sum
  for (size_t t = 0; t < n_tokens; ++t) {
    for (size_t i = 0; i < n_cols; ++i) x[t * x_stride + i] = rng.uniform(-1.0f, 1.0f);
  }
  for (size_t r = 0; r < n_rows; ++r) {
    decode_row(type, weights.data() + r * row_bytes(type, n_cols), row.data(), n_cols);
    for (size_t t = 0; t < n_tokens; ++t) want[t * n_rows + r] = reference_dot(row, x.data() + t * x_stride);
  }
  for (const kernels::Kernels* isa : test::isas()) {
    INFO(isa->name << " " << format_info(type).name << " rows=" << n_rows << " cols=" << n_cols << " tokens=" << n_tokens);
    std::vector<float> y(n_tokens * y_stride, -7.0f), got;
    AlignedBuffer<std::byte> scratch(kernels::float_matmul_scratch_bytes(n_cols));
    isa->matmul->float_matmul({type, unaligned.data() + 1, row_bytes(type, n_cols), n_rows, n_cols, x.data(), x_stride, n_tokens, y.data(), y_stride, scratch.data()});
    for (size_t t = 0; t < n_tokens; ++t) {
      got.insert(got.end(), y.begin() + long(t * y_stride), y.begin() + long(t * y_stride + n_rows));
      for (size_t r = n_rows; r < y_stride; ++r) REQUIRE(y[t * y_stride + r] == -7.0f);
    }
    REQUIRE(same_bits(got, want));
    got[got.size() / 2] = std::nextafter(got[got.size() / 2], 1e30f);  // the planted fault
    REQUIRE_FALSE(same_bits(got, want));
  }
}

}  // namespace

TEST_CASE("float_matmul gives the definition's bits for every format and shape") {
  Rng rng(27);
  for (const FormatInfo& format : all_formats()) {
    if (!format.can_decode) continue;
    for (int round = 0; round < (format.is_quantized ? 6 : 60); ++round) {
      const size_t n_cols = format.is_quantized ? 256 * (1 + rng.below(3)) : 1 + rng.below(200);
      check_float_matmul(format.type, 1 + rng.below(11), n_cols, 1 + rng.below(9), rng);
    }
  }
}
