// The vector kernels: right against double arithmetic, and the same bits on every instruction set.
#include <catch2/catch.hpp>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/rng.h"
#include "kernels/isa.h"

using namespace quern;

namespace {

std::vector<float> random_row(Rng& rng, size_t n, float range) {
  std::vector<float> x(n);
  for (float& v : x) v = rng.uniform(-range, range);
  return x;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

}  // namespace

TEST_CASE("vector kernels give the same bits on every instruction set, at every length") {
  using Op = void (*)(const kernels::VectorKernels&, std::vector<float>&, const std::vector<float>&);
  const std::pair<const char*, Op> ops[] = {
      {"dot", [](const auto& k, auto& x, const auto& y) { x.assign(1, k.dot(x.data(), y.data(), x.size())); }},
      {"rms_norm", [](const auto& k, auto& x, const auto& y) { k.rms_norm(x.data(), y.data(), 1e-5f, x.data(), x.size()); }},
      {"layer_norm", [](const auto& k, auto& x, const auto& y) { k.layer_norm(x.data(), y.data(), y.data(), 1e-5f, x.data(), x.size()); }},
      {"rope_interleaved", [](const auto& k, auto& x, const auto& y) { k.rope_interleaved(x.data(), y.data(), x.size() / 2); }},
      {"rope_half", [](const auto& k, auto& x, const auto& y) { k.rope_half(x.data(), y.data(), x.size() / 2); }},
      {"silu_mul", [](const auto& k, auto& x, const auto& y) { k.silu_mul(x.data(), y.data(), x.data(), x.size()); }},
      {"gelu_mul", [](const auto& k, auto& x, const auto& y) { k.gelu_mul(x.data(), y.data(), x.data(), x.size()); }},
      {"relu_squared_mul", [](const auto& k, auto& x, const auto& y) { k.relu_squared_mul(x.data(), y.data(), x.data(), x.size()); }},
      {"gelu alone", [](const auto& k, auto& x, const auto&) { k.gelu_mul(x.data(), nullptr, x.data(), x.size()); }},
      {"clamped_swiglu_mul", [](const auto& k, auto& x, const auto& y) { k.clamped_swiglu_mul(x.data(), y.data(), 1.5f, x.data(), x.size()); }},
      {"sigmoid", [](const auto& k, auto& x, const auto&) { k.sigmoid(x.data(), x.data(), x.size()); }},
      {"add_scaled", [](const auto& k, auto& x, const auto& y) { k.add_scaled(y.data(), x.data(), 0.37f, x.data(), x.size()); }},
      {"add", [](const auto& k, auto& x, const auto& y) { k.add(x.data(), y.data(), x.data(), x.size()); }},
      {"scale", [](const auto& k, auto& x, const auto&) { k.scale(x.data(), 0.37f, x.size()); }},
      {"clamp", [](const auto& k, auto& x, const auto&) { k.clamp(x.data(), 1.5f, x.size()); }},
      {"softcap", [](const auto& k, auto& x, const auto&) { k.softcap(x.data(), 30.0f, x.size()); }},
      {"exp_sum", [](const auto& k, auto& x, const auto&) { x.push_back(k.exp_sum(x.data(), k.max(x.data(), x.size()), x.data(), x.size())); }},
      {"argmax", [](const auto& k, auto& x, const auto&) { x.assign(1, float(k.argmax(x.data(), x.size()))); }},
      {"hadamard", [](const auto& k, auto& x, const auto&) { k.hadamard(x.data(), x.size()); }},
  };
  Rng rng(7);
  for (const kernels::Kernels* isa : test::isas()) {
    for (const auto& [name, op] : ops) {
      for (size_t n = 1; n <= 70; ++n) {
        const std::vector<float> x = random_row(rng, n, n % 3 ? 4.0f : 90.0f), y = random_row(rng, n, 2.0f);
        std::vector<float> want = x, got = x;
        op(*test::scalar().vector, want, y);
        op(*isa->vector, got, y);
        INFO(isa->name << " " << name << " n=" << n);
        REQUIRE(same_bits(want, got));
        got[n / 2 % got.size()] = std::nextafter(got[n / 2 % got.size()], 1e30f);  // the planted fault
        REQUIRE_FALSE(same_bits(want, got));
      }
    }
  }
}

TEST_CASE("exp is within 2 ulp, exact at 0, zero below -87.3, and keeps NaN") {
  for (const kernels::Kernels* isa : test::isas()) {
    for (float x = -87.29f; x < 88.0f; x += 0.00917f) {
      float out;
      isa->vector->exp_sum(&x, 0.0f, &out, 1);
      const double want = std::exp(double(x));
      REQUIRE(std::fabs(out - want) <= 2.0 * want * 0x1p-23);
    }
    const float special[] = {0.0f, -87.31f, -INFINITY, NAN};
    float out[4];
    isa->vector->exp_sum(special, 0.0f, out, 4);
    CHECK(out[0] == 1.0f);
    CHECK(out[1] == 0.0f);
    CHECK(out[2] == 0.0f);
    CHECK(std::isnan(out[3]));
  }
}

TEST_CASE("norms, activations and soft cap against double arithmetic") {
  Rng rng(11);
  const size_t n = 576;
  const std::vector<float> x = random_row(rng, n, 3.0f), w = random_row(rng, n, 2.0f);
  double square = 0;
  for (float v : x) square += double(v) * v;
  for (const kernels::Kernels* isa : test::isas()) {
    const kernels::VectorKernels& k = *isa->vector;
    std::vector<float> norm(n), silu(n), gelu(n), relu(n), swiglu(n), sigmoid(n), cap = x, held = x;
    k.rms_norm(x.data(), w.data(), 1e-5f, norm.data(), n);
    k.silu_mul(x.data(), w.data(), silu.data(), n);
    k.gelu_mul(x.data(), w.data(), gelu.data(), n);
    k.relu_squared_mul(x.data(), nullptr, relu.data(), n);
    k.clamped_swiglu_mul(x.data(), w.data(), 1.25f, swiglu.data(), n);
    k.sigmoid(x.data(), sigmoid.data(), n);
    k.softcap(cap.data(), 2.0f, n);
    k.clamp(held.data(), 1.25f, n);
    for (size_t i = 0; i < n; ++i) {
      const double v = x[i];
      REQUIRE(norm[i] == Approx(v / std::sqrt(square / n + 1e-5) * w[i]).margin(1e-6));
      REQUIRE(silu[i] == Approx(v / (1 + std::exp(-v)) * w[i]).margin(1e-6));
      REQUIRE(gelu[i] == Approx(0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v))) * w[i]).margin(1e-6));
      REQUIRE(relu[i] == (v > 0 ? float(v) * float(v) : 0.0f));
      REQUIRE(held[i] == std::clamp(x[i], -1.25f, 1.25f));
      const double gate = std::min(v, 1.25), up = std::clamp(double(w[i]), -1.25, 1.25);
      REQUIRE(swiglu[i] == Approx((up + 1) * gate / (1 + std::exp(-1.702 * gate))).margin(1e-6));
      REQUIRE(sigmoid[i] == Approx(1 / (1 + std::exp(-v))).margin(1e-6));
      REQUIRE(cap[i] == Approx(2 * std::tanh(v / 2)).margin(1e-6));
    }
  }
}

TEST_CASE("activations keep NaN, so that a damaged weight is noticed") {
  for (const kernels::Kernels* isa : test::isas()) {
    for (const auto activation : {isa->vector->silu_mul, isa->vector->gelu_mul, isa->vector->relu_squared_mul}) {
      const float in = NAN;
      float out = 0;
      activation(&in, nullptr, &out, 1);
      CHECK(std::isnan(out));
    }
  }
}

TEST_CASE("argmax takes the lowest of equals and never NaN; all_finite sees one bad lane") {
  for (const kernels::Kernels* isa : test::isas()) {
    std::vector<float> x(33, 1.0f);
    x[17] = x[30] = 2.0f;
    x[3] = NAN;
    CHECK(isa->vector->argmax(x.data(), x.size()) == 17);
    CHECK_FALSE(isa->vector->all_finite(x.data(), x.size()));
    x[3] = 0.0f;
    CHECK(isa->vector->all_finite(x.data(), x.size()));
    x[32] = INFINITY;
    CHECK_FALSE(isa->vector->all_finite(x.data(), x.size()));
  }
}

TEST_CASE("a Hadamard rotation keeps length and undoes itself, in power-of-two parts for other sizes") {
  Rng rng(5);
  for (const size_t n : {64u, 72u, 80u, 96u, 100u, 128u, 256u}) {
    const std::vector<float> x = random_row(rng, n, 1.0f);
    for (const kernels::Kernels* isa : test::isas()) {
      std::vector<float> y = x;
      isa->vector->hadamard(y.data(), n);
      CHECK_FALSE(same_bits(x, y));
      isa->vector->hadamard(y.data(), n);
      for (size_t i = 0; i < n; ++i) REQUIRE(y[i] == Approx(x[i]).margin(1e-6));
    }
  }
}
