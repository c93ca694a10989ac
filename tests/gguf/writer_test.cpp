// What the writer writes is what the parser reads: every type, several alignments, in memory and on disk.
#include "gguf/writer.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "bad_gguf/builder.h"
#include "base/check.h"
#include "temp_dir.h"

using namespace quern;
using gguf::testing::as_bytes;

namespace {

const std::string kFirst(36, 'a'), kSecond(20, 'b');
const gguf::Writer::TensorData kData = [](size_t i) { return as_bytes(i == 0 ? kFirst : kSecond); };

gguf::Writer example(uint32_t alignment) {
  gguf::Writer writer(alignment);
  writer.set("general.architecture", "llama");
  writer.set("u8", uint8_t(200));
  writer.set("i16", int16_t(-5));
  writer.set("u32", 7u);
  writer.set("i64", int64_t(-1) << 40);
  writer.set("f32", 0.1f);
  writer.set("f64", 0.1);
  writer.set("yes", true);
  const int32_t numbers[] = {-1, 2, 3};
  const std::string_view words[] = {"one", "", "three"};
  writer.set_array<int32_t>("numbers", numbers);
  writer.set_array("words", words);
  const uint64_t first_dims[] = {32, 2}, second_dims[] = {5};
  writer.add_tensor("first", TensorType::Q4_0, first_dims);
  writer.add_tensor("second", TensorType::F32, second_dims);
  return writer;
}

}  // namespace

TEST_CASE("written and read back") {
  for (const uint32_t alignment : {8u, 32u, 64u, 4096u}) {
    INFO(alignment);
    const std::string bytes = example(alignment).bytes(kData);
    const gguf::Header header = gguf::parse(as_bytes(bytes));
    CHECK(header.alignment == alignment);
    CHECK(header.data_offset % alignment == 0);
    CHECK(header.get_uint("u8") == 200);
    CHECK(header.get_int("i16") == -5);
    CHECK(header.find("u32")->type == gguf::ValueType::U32);
    CHECK(header.get_int("i64") == int64_t(-1) * (int64_t(1) << 40));
    CHECK(float(*header.get_float("f32")) == 0.1f);
    CHECK(header.get_float("f64") == 0.1);
    CHECK(header.get_bool("yes") == true);
    CHECK(header.get_array("numbers")->integer(0) == -1);
    CHECK(header.get_array("words")->strings[2] == "three");
    const gguf::TensorInfo* second = header.find_tensor("second");
    REQUIRE(second);
    CHECK(bytes.substr(header.data_offset + second->offset, second->n_bytes) == kSecond);
    CHECK(bytes.substr(header.data_offset, 36) == kFirst);
  }
}

TEST_CASE("copied value by value, a file stays the same") {
  const std::string bytes = example(64).bytes(kData);
  const gguf::Header header = gguf::parse(as_bytes(bytes));
  gguf::Writer copy(64);
  for (const auto& [key, value] : header.metadata) copy.set(key, value);
  for (const gguf::TensorInfo& tensor : header.tensors) copy.add_tensor(tensor.name, tensor.type, tensor.dims);
  CHECK(copy.bytes(kData) == bytes);
}

TEST_CASE("on disk: complete, or the old file stays") {
  const quern::testing::TempDir dir;
  const auto path = dir.path / "model.gguf";
  example(32).write(path, kData);
  std::ifstream in(path, std::ios::binary);
  const std::string on_disk{std::istreambuf_iterator<char>(in), {}};
  CHECK(on_disk == example(32).bytes(kData));

  const auto fails = [](size_t) -> std::span<const std::byte> { throw_error(ErrorKind::kRuntime, "no data"); };
  CHECK_THROWS_AS(example(64).write(path, fails), Error);
  CHECK(std::filesystem::file_size(path) == on_disk.size());
  CHECK(!std::filesystem::exists(path.string() + ".part"));
  CHECK_THROWS_WITH(example(32).write(dir.path / "absent" / "x.gguf", kData),
                    Catch::Matchers::Contains("No such file"));
}
