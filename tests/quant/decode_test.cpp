// Every decoder against the reference data (golden/quants), bit for bit.
#include "quant/decode.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

using namespace quern;

namespace {

std::vector<char> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  INFO(path);
  REQUIRE(in.good());
  return {std::istreambuf_iterator<char>(in), {}};
}

const std::string kDir = std::string(QUERN_GOLDEN) + "/quants/";

/// The number of rows whose decoding differs from the reference in any bit.
int wrong_rows(const FormatInfo& format, const std::vector<char>& blocks, const std::vector<char>& f32, size_t n_rows,
               size_t n_cols) {
  const size_t n_row_bytes = row_bytes(format.type, n_cols);
  int n_wrong = 0;
  for (size_t row = 0; row < n_rows; ++row) {
    // An odd address: decode_row must not rely on alignment.
    std::vector<std::byte> src(n_row_bytes + 1);
    std::memcpy(src.data() + 1, blocks.data() + row * n_row_bytes, n_row_bytes);
    std::vector<float> decoded(n_cols);
    decode_row(format.type, src.data() + 1, decoded.data(), n_cols);
    n_wrong += std::memcmp(decoded.data(), f32.data() + row * n_cols * sizeof(float), n_cols * sizeof(float)) != 0;
  }
  return n_wrong;
}

}  // namespace

TEST_CASE("decode_row gives the reference's bits") {
  const nlohmann::json index = nlohmann::json::parse(std::ifstream(kDir + "index.json"));
  int n_checked = 0;
  for (const auto& entry : index) {
    const FormatInfo* format = find_format(entry["ggml_type"].get<uint32_t>());
    REQUIRE(format);
    INFO(format->name);
    CHECK(format->name == entry["type"].get<std::string>());
    CHECK(format->block_elems == entry["block_size"].get<uint32_t>());
    CHECK(format->block_bytes == entry["type_size"].get<uint32_t>());
    REQUIRE(format->can_decode);
    const size_t n_rows = entry["rows"], n_cols = entry["cols"];
    std::vector<char> blocks = read_file(kDir + entry["blocks"].get<std::string>());
    const std::vector<char> f32 = read_file(kDir + entry["f32"].get<std::string>());
    REQUIRE(blocks.size() == n_rows * row_bytes(format->type, n_cols));
    REQUIRE(f32.size() == n_rows * n_cols * sizeof(float));
    CHECK(wrong_rows(*format, blocks, f32, n_rows, n_cols) == 0);
    // One flipped bit in a row's codes must be seen, or the comparison above proves nothing.
    blocks[blocks.size() / n_rows / 2] ^= 1;
    CHECK(wrong_rows(*format, blocks, f32, n_rows, n_cols) == 1);
    ++n_checked;
  }
  CHECK(n_checked == 24);
}

TEST_CASE("the format table is in order, and unknown ids have no row") {
  uint32_t last = 0;
  for (const FormatInfo& format : all_formats()) {
    CHECK((uint32_t(format.type) > last || format.type == TensorType::F32));
    last = uint32_t(format.type);
    CHECK(find_format(last) == &format);
    CHECK(format.block_elems > 0);
    CHECK(removed_format_name(last).empty());
  }
  for (const uint32_t id : {4u, 5u, 31u, 32u, 33u, 36u, 37u, 38u}) {
    CHECK(!find_format(id));
    CHECK(!removed_format_name(id).empty());
  }
  CHECK(!find_format(99));
  CHECK(!find_format(UINT32_MAX));
  CHECK(format_info(TensorType::Q6_K).name == "Q6_K");
  CHECK(row_bytes(TensorType::Q4_0, 64) == 36);
}

TEST_CASE("f32 rows are copied") {
  const float values[3] = {1.5f, -0.0f, std::bit_cast<float>(0x7fc12345u)};
  float out[3];
  decode_row(TensorType::F32, reinterpret_cast<const std::byte*>(values), out, 3);
  CHECK(std::memcmp(values, out, sizeof(out)) == 0);
}
