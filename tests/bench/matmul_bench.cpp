// Micro-benchmarks of the quantized matmul. Compute: weights in L2, counter Gops (two operations a multiply-add). Stream: weights far
// larger than L3, read once per pass, counter GBps of weight bytes. All on one thread; QUERN_ISA_TEST narrows the instruction set.
// Examples: quern_bench --benchmark_filter='gemm/avx2/Q4'    quern_bench --benchmark_filter='stream/.*/Q8_0'
#include <benchmark/benchmark.h>

#include <string>

#include "base/aligned.h"
#include "base/cpu.h"
#include "kernels/isa.h"
#include "kernels/random_weights.h"

using namespace quern;

namespace {

constexpr TensorType kTypes[] = {TensorType::Q4_0, TensorType::Q4_1, TensorType::Q5_0, TensorType::Q5_1, TensorType::Q8_0, TensorType::Q2_K,
                                 TensorType::Q3_K, TensorType::Q4_K, TensorType::Q5_K, TensorType::Q6_K, TensorType::IQ4_NL, TensorType::IQ4_XS,
                                 TensorType::MXFP4, TensorType::IQ2_XXS, TensorType::IQ2_XS, TensorType::IQ2_S, TensorType::IQ3_XXS, TensorType::IQ3_S,
                                 TensorType::IQ1_S, TensorType::IQ1_M, TensorType::TQ1_0, TensorType::TQ2_0};

constexpr size_t kWideRows = 5632;  // a few rows of a large matrix: where y lies matters

/// One matrix and its activations; weights repeat one random strip, because making gigabytes of random bytes takes longer than the test.
struct Problem {
  TensorType type;
  size_t n_cols, n_rows, n_tokens, y_stride;
  std::vector<std::byte> weights;
  AlignedBuffer<int8_t> codes;
  AlignedBuffer<kernels::ActGroup> groups;
  AlignedBuffer<float> y;
  AlignedBuffer<std::byte> scratch;

  Problem(const kernels::Kernels& isa, TensorType t, size_t cols, size_t rows, size_t tokens)
      : type(t), n_cols(cols), n_rows(rows / 16 * 16), n_tokens(tokens), y_stride(std::max(n_rows, kWideRows)), codes(tokens * cols), groups(tokens * cols / 32), y(tokens * y_stride),
        scratch(kernels::quant_matmul_scratch_bytes(tokens)) {
    Rng rng(1);
    const std::vector<std::byte> strip = test::random_weights(type, 16, n_cols, rng);
    while (weights.size() < n_rows * row_bytes(type, n_cols)) weights.insert(weights.end(), strip.begin(), strip.end());
    std::vector<float> x(n_cols);
    for (size_t token = 0; token < n_tokens; ++token) {
      for (float& v : x) v = rng.uniform(-1.0f, 1.0f);
      isa.matmul->quantize_row(x.data(), n_cols, codes.data() + token * n_cols, groups.data() + token * n_cols / 32);
    }
  }

  /// Rows [first, first + count), as a worker would be given them.
  void multiply(const kernels::Kernels& isa, size_t first, size_t count) {
    const size_t bytes = row_bytes(type, n_cols);
    isa.matmul->quant_matmul({type, weights.data() + first * bytes, bytes, count, {codes.data(), groups.data(), n_cols / 32}, n_tokens, y.data() + first, y_stride, scratch.data()});
  }
};

void gemm(benchmark::State& state, const kernels::Kernels* isa, TensorType type, size_t n_cols, size_t n_tokens) {
  Problem p(*isa, type, n_cols, 128, n_tokens);
  for (auto _ : state) p.multiply(*isa, 0, p.n_rows);
  state.counters["Gops"] = benchmark::Counter(2e-9 * double(p.n_rows * n_cols * n_tokens), benchmark::Counter::kIsIterationInvariantRate);
}

void stream(benchmark::State& state, const kernels::Kernels* isa, TensorType type, size_t n_cols, size_t n_tokens) {
  const size_t chunk = 256, n_bytes = 4 * cpu_info().l3_bytes + (size_t(16) << 20);
  Problem p(*isa, type, n_cols, n_bytes / row_bytes(type, n_cols) / chunk * chunk, n_tokens);
  for (auto _ : state) {
    for (size_t r = 0; r < p.n_rows; r += chunk) p.multiply(*isa, r, chunk);
  }
  state.counters["GBps"] = benchmark::Counter(1e-9 * double(p.weights.size()), benchmark::Counter::kIsIterationInvariantRate);
}

void plain_read(benchmark::State& state) {
  AlignedBuffer<uint64_t> data((4 * cpu_info().l3_bytes + (size_t(16) << 20)) / sizeof(uint64_t));
  data.zero();
  for (auto _ : state) {
    uint64_t sum[8] = {};
    for (size_t i = 0; i + 8 <= data.size(); i += 8) {
      for (size_t j = 0; j < 8; ++j) sum[j] += data[i + j];
    }
    benchmark::DoNotOptimize(sum);
  }
  state.counters["GBps"] = benchmark::Counter(1e-9 * double(data.size() * sizeof(uint64_t)), benchmark::Counter::kIsIterationInvariantRate);
}

void register_all() {
  benchmark::RegisterBenchmark("plain_read", plain_read)->Unit(benchmark::kMillisecond);
  for (const kernels::Kernels* isa : test::isas()) {
    for (const TensorType type : kTypes) {
      const std::string name = std::string(isa->name) + "/" + std::string(format_info(type).name);
      for (const size_t n_cols : {size_t(576), size_t(1536), size_t(2048), size_t(5632)}) {
        if (n_cols % format_info(type).block_elems) continue;
        benchmark::RegisterBenchmark(("gemm/" + name + "/k=" + std::to_string(n_cols) + "/n=512").c_str(), gemm, isa, type, n_cols, 512)->Unit(benchmark::kMicrosecond);
      }
      for (const size_t n : {1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32}) {
        benchmark::RegisterBenchmark(("cached/" + name + "/k=2048/n=" + std::to_string(n)).c_str(), gemm, isa, type, 2048, n)->Unit(benchmark::kMicrosecond);
      }
      for (const size_t n : {1, 2, 3, 4, 8, 16, 32}) {
        benchmark::RegisterBenchmark(("stream/" + name + "/k=2048/n=" + std::to_string(n)).c_str(), stream, isa, type, 2048, n)->Unit(benchmark::kMillisecond);
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  register_all();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
