// Products shared by a team: every row once, with the bits of one worker that does it all, whatever the rows, jobs, tokens and workers.
#include "ops/matmul.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <vector>

#include "base/aligned.h"
#include "base/rng.h"
#include "kernels/random_weights.h"

using namespace quern;

namespace {

constexpr float kUntouched = -4321.125f;  // no product here happens to be this

struct Product {
  std::vector<std::byte> bytes;
  Weight weight;
  Product(TensorType type, size_t n_rows, size_t n_cols, bool with_bias, Rng& rng)
      : bytes(test::random_weights(type, n_rows, n_cols, rng)), weight{type, bytes.data(), row_bytes(type, n_cols), n_rows, n_cols, {}} {
    if (with_bias) weight.bias.resize(n_rows);
    for (float& b : weight.bias) b = rng.uniform(-1.0f, 1.0f);
  }
};

/// [job][token, row]
std::vector<std::vector<float>> multiply(int n_threads, const std::vector<Product>& products, const std::vector<float>& x, size_t n_cols, size_t n_tokens) {
  const kernels::Kernels& kernels = kernels::active_kernels();
  ops::RowBuffers rows;
  rows.codes.resize(n_tokens * kernels::act_groups(n_cols) * kernels::kActGroup);
  rows.groups.resize(n_tokens * kernels::act_groups(n_cols));
  std::vector<std::vector<float>> y;
  std::vector<ops::MatmulJob> jobs;
  for (const Product& p : products) y.emplace_back(n_tokens * p.weight.n_rows, kUntouched);
  for (size_t i = 0; i < products.size(); ++i) jobs.push_back({&products[i].weight, y[i].data(), products[i].weight.n_rows});
  std::vector<AlignedBuffer<std::byte>> scratch(static_cast<size_t>(n_threads));
  for (auto& s : scratch) s.resize(ops::matmul_scratch_bytes(n_tokens, n_cols));
  run_team(n_threads, [&](Worker& worker) {
    const ops::MatmulContext context{kernels.matmul, false, n_tokens, scratch[size_t(worker.index())].data(), nullptr};
    worker.for_chunks(n_tokens, [&](size_t t) { ops::set_input_row(context, *kernels.vector, x.data() + t * n_cols, n_cols, rows, t); });
    const ops::ActInput input = ops::rows_as_input(rows, x.data(), n_cols);
    if (worker.count() == 1) {
      for (const ops::MatmulJob& job : jobs) ops::multiply_rows(context, input, job, 0, job.weight->n_rows);
    } else {
      ops::matmul(worker, context, input, jobs, jobs);
    }
  });
  return y;
}

}  // namespace

TEST_CASE("rows shared by a team are each computed, with the bits of one worker") {
  Rng rng(7);
  struct Case { TensorType type; size_t n_cols; std::vector<size_t> rows; };
  // few rows for the workers; several jobs; rows so wide that the last chunks are the smallest; more rows than a chunk's most
  const Case cases[] = {{TensorType::Q8_0, 64, {1}}, {TensorType::Q8_0, 64, {33, 5, 700}}, {TensorType::Q4_K, 256, {96, 32, 31}}, {TensorType::F32, 48, {129, 64}},
                        {TensorType::Q8_0, 8192, {150}}, {TensorType::Q4_0, 2048, {1000, 999}}, {TensorType::Q4_1, 32, {4097}}};
  for (const Case& c : cases) {
    for (const size_t n_tokens : {1, 3, 12}) {
      std::vector<Product> products;
      for (const size_t n : c.rows) products.emplace_back(c.type, n, c.n_cols, n % 2 == 1, rng);
      std::vector<float> x(n_tokens * c.n_cols);
      for (float& v : x) v = rng.uniform(-1.0f, 1.0f);
      const auto expected = multiply(1, products, x, c.n_cols, n_tokens);
      for (const auto& y : expected) {
        for (const float v : y) REQUIRE(v != kUntouched);
      }
      for (const int n_threads : {2, 3, 5}) {
        INFO(format_info(c.type).name << ", " << c.rows.size() << " jobs of " << c.rows[0] << " rows first, " << n_tokens << " tokens, " << n_threads << " threads");
        const auto y = multiply(n_threads, products, x, c.n_cols, n_tokens);
        for (size_t i = 0; i < y.size(); ++i) REQUIRE(std::memcmp(y[i].data(), expected[i].data(), y[i].size() * sizeof(float)) == 0);
      }
    }
  }
}

TEST_CASE("the last chunks of a stage are small and cover every row once") {
  struct Case { size_t n_rows, row_bytes; int n_workers; size_t row_tile; };
  for (const Case& c : {Case{1, 34, 2, 32}, Case{2048, 8704, 2, 32}, Case{262144, 680, 2, 32}, Case{576, 360, 8, 16}, Case{4097, 20, 3, 8}, Case{32000, 2176, 64, 32}}) {
    INFO(c.n_rows << " rows of " << c.row_bytes << " bytes, " << c.n_workers << " workers");
    const std::byte data{};
    const Weight first{TensorType::Q8_0, &data, c.row_bytes, c.n_rows / 2 + 1, 32, {}}, last{TensorType::Q8_0, &data, c.row_bytes, c.n_rows, 32, {}};
    const ops::MatmulJob jobs[] = {{&first, nullptr, 0}, {&last, nullptr, 0}};
    const ops::RowChunks chunks(jobs, c.n_workers, c.row_tile, 1);
    size_t next[2] = {0, 0};
    size_t n_last = 0;
    for (size_t i = 0; i < chunks.count(); ++i) {
      const auto [job, begin, n_rows] = chunks[i];
      size_t& at = next[job - jobs];
      REQUIRE(begin == at);
      REQUIRE(n_rows > 0);
      REQUIRE(begin % c.row_tile == 0);
      at += n_last = n_rows;
    }
    CHECK(next[0] == first.n_rows);
    CHECK(next[1] == last.n_rows);
    CHECK(n_last * c.row_bytes <= std::max(ops::RowChunks::kLastChunkBytes, c.row_tile * c.row_bytes));
  }
}
