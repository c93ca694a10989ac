// Unigram vocabularies: the search on scores that are easy to add up, the character map and the ways it can be bad,
// time.
#include <catch2/catch.hpp>
#include <cstring>

#include "base/check.h"
#include "text/tokenizer_fixture.h"

using namespace quern;
using namespace quern::test;

namespace {

using Ids = std::vector<TokenId>;

/// <pad>, </s>, <unk> as T5 has them, then: a b ab abc bc ▁, with ids 3 … 8.
SmallVocab letters() {
  SmallVocab vocab;
  vocab.model = "t5";
  vocab.entries = {
      {"<pad>", TokenKind::kControl},  {"</s>", TokenKind::kControl},  {"<unk>", TokenKind::kUnknown},
      {"a", TokenKind::kNormal, -2},   {"b", TokenKind::kNormal, -2},  {"ab", TokenKind::kNormal, -3},
      {"abc", TokenKind::kNormal, -9}, {"bc", TokenKind::kNormal, -5}, {"\xe2\x96\x81", TokenKind::kNormal, -1}};
  return vocab;
}

/// A double array with one key: the byte `from` is replaced by what lies at `target` in the replacements.
std::string one_key_map(char from, uint32_t target, std::string_view replacements) {
  // Unit 0 is the root, whose children lie at 0x100 ^ byte; the value of the node at 0x100 ^ from lies at ^ 0x200 of
  // it.
  std::vector<uint32_t> units(0x400, 0x80u << 24);
  units[0] = 1u << 10 | 1u << 9;
  const uint32_t node = 0x100u ^ uint8_t(from);
  units[node] = 2u << 10 | 1u << 9 | 1u << 8 | uint8_t(from);
  units[node ^ 0x200u] = 1u << 31 | target;
  const auto n_bytes = uint32_t(units.size() * sizeof(uint32_t));
  std::string map(sizeof(n_bytes) + n_bytes, '\0');
  std::memcpy(map.data(), &n_bytes, sizeof(n_bytes));
  std::memcpy(map.data() + sizeof(n_bytes), units.data(), n_bytes);
  return map.append(replacements);
}

gguf::Writer with_map(std::string_view map) {
  gguf::Writer writer = letters().writer();
  const std::vector<uint8_t> bytes(map.begin(), map.end());
  writer.set_array("tokenizer.ggml.precompiled_charsmap", std::span<const uint8_t>(bytes));
  return writer;
}

std::string message_of(const gguf::Writer& writer, std::string_view text = "") {
  try {
    WrittenTokenizer tokenizer(writer);
    tokenizer->encode(text, {});
  } catch (const Error& error) {
    CHECK(error.exit_status() == 3);
    return error.what();
  }
  return "no error";
}

using Catch::Matchers::Contains;

}  // namespace

TEST_CASE("a unigram vocabulary takes the tokens whose scores add up to most") {
  const WrittenTokenizer tokenizer(letters().writer());
  CHECK(tokenizer->encode("", {}).empty());
  CHECK(tokenizer->encode("ab", {}) == Ids{5});      // -3 against -4
  CHECK(tokenizer->encode("abc", {}) == Ids{3, 7});  // a bc: -7; abc: -9; ab with an unknown c: -22
  CHECK(tokenizer->encode("aba", {}) == Ids{5, 3});
  CHECK(tokenizer->encode("c", {}) == Ids{2});
  CHECK(tokenizer->encode("cccacc", {}) == Ids{2, 3, 2});  // a run of unknown characters is one token
  CHECK(tokenizer->encode("a b", {}) == Ids{3, 8, 4});
  CHECK(tokenizer->encode("\xff\xe2\x96", {}) == Ids{2});
  CHECK(tokenizer->encode("a", {.add_special = true}) == Ids{3, 1});
  CHECK(tokenizer->encode("a</s>b", {.add_special = true, .parse_special = true}) == Ids{3, 1, 4, 1});
}

TEST_CASE("a unigram vocabulary's spaces follow the file's keys") {
  for (const bool prefix : {false, true}) {
    for (const bool merge : {false, true}) {
      gguf::Writer writer = letters().writer();
      writer.set("tokenizer.ggml.add_space_prefix", prefix);
      writer.set("tokenizer.ggml.remove_extra_whitespaces", merge);
      const WrittenTokenizer tokenizer(writer);
      INFO("prefix " << prefix << ", merge " << merge);
      CHECK(tokenizer->encode("b", {}) == (prefix || merge ? Ids{8, 4} : Ids{4}));
      CHECK(tokenizer->encode("b  b ", {}) == (merge    ? Ids{8, 4, 8, 4}
                                               : prefix ? Ids{8, 4, 8, 8, 4, 8}
                                                        : Ids{4, 8, 8, 4, 8}));
      // Text that goes on behind other text has the spaces that it brings, and no more.
      CHECK(tokenizer->encode("b b", {.continues = true}) == Ids{4, 8, 4});
      CHECK(tokenizer->encode(" b", {.continues = true}) == Ids{8, 4});
    }
  }
}

TEST_CASE("the character map replaces, and a bad one is refused by name") {
  const std::string good = one_key_map('X', 3, std::string_view("zz\0ab\0", 6));
  CHECK(WrittenTokenizer(with_map(good))->encode("X", {}) == Ids{5});
  CHECK(WrittenTokenizer(with_map(good))->encode("aXa", {}) == Ids{3, 5, 3});
  CHECK(message_of(with_map(good), "X") == "no error");

  CHECK_THAT(message_of(with_map(std::string_view("\x01\0", 2))),
             Contains("precompiled_charsmap") && Contains("2 bytes"));
  CHECK_THAT(message_of(with_map(good.substr(0, 4100))), Contains("4100 bytes") && Contains("table of 4096"));
  CHECK_THAT(message_of(with_map(good.substr(0, good.size() - 1))), Contains("zero byte"));
  CHECK_THAT(message_of(with_map(one_key_map('X', 77, std::string_view("ab\0", 3))), "X"),
             Contains("begins at byte 77"));
  std::string astray = good;
  astray[4 + 3] = '\x7f';  // the root's children lie far outside
  CHECK_THAT(message_of(with_map(astray), "X"), Contains("precompiled_charsmap") && Contains("1024"));
  gguf::Writer numbers = letters().writer();
  const std::vector<int32_t> wide(8, 1);
  numbers.set_array("tokenizer.ggml.precompiled_charsmap", std::span<const int32_t>(wide));
  CHECK_THAT(message_of(numbers), Contains("i32") && Contains("u8"));
}

TEST_CASE("a unigram vocabulary needs its scores") {
  CHECK_THAT(message_of(letters().writer({"scores"})), Contains("tokenizer.ggml.scores") && Contains("missing"));
}

TEST_CASE("encoding by a unigram vocabulary takes linear time") {
  const WrittenTokenizer tokenizer(letters().writer());
  for (const std::string unit : {"a", "x", " ", "abc ", "\xff"}) {
    std::string text;
    while (text.size() < 2000000) text += unit;
    const Ids ids = tokenizer->encode(text, {});
    // A square of two million would take an hour and trip ctest's limit; there is no timed assertion.
    CHECK(ids.size() == (unit == "a" || unit == " " ? 2000000 : unit == "abc " ? 1500000 : 1));
  }
}
