// parse() on good files: every value comes back as it was stored, and typed look-ups refuse what is of another kind.
#include <catch2/catch.hpp>

#include "bad_gguf/cases.h"
#include "base/check.h"
#include "gguf/gguf.h"

using namespace quern;
using namespace quern::gguf::testing;
using Catch::Matchers::Contains;

TEST_CASE("scalars of every type") {
  const auto cases = good_cases();
  const gguf::Header header = gguf::parse(as_bytes(cases[3].bytes));
  CHECK(header.version == 3);
  CHECK(header.metadata.size() == 11);
  CHECK(header.metadata[1].first == "u8");
  CHECK(header.get_uint("u8") == 1);
  CHECK(header.get_int("i8") == -1);
  CHECK(header.get_uint("u16") == 7);
  CHECK(header.get_int("i16") == -7);
  CHECK(header.get_int("i32") == -9);
  CHECK(header.get_float("f32") == 1.5);
  CHECK(header.get_bool("bool") == true);
  CHECK(header.get_uint("u64") == 1ull << 63);
  CHECK(header.get_int("i64") == -1);
  CHECK(header.get_float("f64") == 2.5);
  CHECK(header.get_float("i16") == -7.0);
  CHECK(header.get_string("general.architecture") == "llama");
  CHECK(!header.get_uint("absent"));
  CHECK(!header.get_array("absent"));
}

TEST_CASE("a value of another kind is named") {
  const auto cases = good_cases();
  const gguf::Header header = gguf::parse(as_bytes(cases[3].bytes));
  CHECK_THROWS_WITH(header.get_uint("f32"), Contains("'f32'") && Contains("type f32") && Contains("an integer"));
  CHECK_THROWS_WITH(header.get_uint("i16"), Contains("'i16'") && Contains("found -7") && Contains("0 or more"));
  CHECK_THROWS_WITH(header.get_int("u64"), Contains("found 9223372036854775808"));
  CHECK_THROWS_WITH(header.get_float("general.architecture"), Contains("type string") && Contains("a number"));
  CHECK_THROWS_WITH(header.get_bool("u8"), Contains("type u8") && Contains("a bool"));
  CHECK_THROWS_WITH(header.get_string("bool"), Contains("type bool") && Contains("a string"));
  CHECK_THROWS_WITH(header.get_array("u8"), Contains("type u8") && Contains("an array"));
}

TEST_CASE("arrays") {
  File file;
  file.key_values.push_back(kv("i16", kArray, Bytes().u32(kI16).u64(2).number(int16_t(-3)).number(int16_t(400))));
  file.key_values.push_back(kv("f64", kArray, Bytes().u32(kF64).u64(1).number(0.125)));
  file.key_values.push_back(kv("bool", kArray, Bytes().u32(kBool).u64(2).u8(0).u8(1)));
  file.key_values.push_back(kv("text", kArray, Bytes().u32(kString).u64(2).string("a").string("")));
  const std::string bytes = file.bytes();
  const gguf::Header header = gguf::parse(as_bytes(bytes));
  CHECK(header.get_array("i16")->integer(0) == -3);
  CHECK(header.get_array("i16")->number(1) == 400.0);
  CHECK(header.get_array("f64")->number(0) == 0.125);
  CHECK(header.get_array("bool")->integer(1) == 1);
  CHECK(header.get_array("text")->strings == std::vector<std::string_view>{"a", ""});
  CHECK_THROWS_WITH(header.get_array("f64")->integer(0), Contains("type f64"));
  CHECK_THROWS_WITH(header.get_array("text")->number(0), Contains("type string"));
}

TEST_CASE("tensor infos") {
  const std::string bytes = with_tensors({tensor("a", {64, 3}, 2, 0), tensor("b", {5}, 1, 128)}, 138).bytes();
  const gguf::Header header = gguf::parse(as_bytes(bytes));
  REQUIRE(header.tensors.size() == 2);
  const gguf::TensorInfo* a = header.find_tensor("a");
  REQUIRE(a);
  CHECK(a->type == TensorType::Q4_0);
  CHECK(a->dims == std::vector<uint64_t>{64, 3});
  CHECK(a->n_elems == 192);
  CHECK(a->n_bytes == 108);
  CHECK(header.find_tensor("b")->n_bytes == 10);
  CHECK(header.data_offset % 32 == 0);
  CHECK(header.data_offset + 138 == bytes.size());
  CHECK(!header.find_tensor("c"));
}

TEST_CASE("a header alone is parsed when the data is not asked for") {
  const std::string bytes = with_tensors({tensor("a", {64, 3}, 2, 0)}, 108).bytes();
  const std::string header = bytes.substr(0, bytes.size() - 108);
  CHECK_THROWS_WITH(gguf::parse(as_bytes(header)), Contains("truncated"));
  CHECK(gguf::parse(as_bytes(header), false).tensors.size() == 1);
}
