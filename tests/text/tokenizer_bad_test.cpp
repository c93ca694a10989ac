// The ways a vocabulary can be bad, each with a message that names the key, what was found and what is allowed.
#include <catch2/catch.hpp>
#include <functional>

#include "base/check.h"
#include "text/pretokenizer.h"
#include "text/tokenizer_fixture.h"

using namespace quern;
using namespace quern::test;

namespace {

SmallVocab small_spm() {
  SmallVocab vocab = SmallVocab::sentence_piece();
  vocab.add("ab", TokenKind::kNormal, -1);
  return vocab;
}

SmallVocab small_bpe() {
  SmallVocab vocab = SmallVocab::byte_level();
  vocab.add_merge("a", "b");
  return vocab;
}

struct Failure {
  std::string message;
  int status = 0;
};

Failure load(const gguf::Writer& writer, std::string_view pre = {}) {
  try {
    WrittenTokenizer tokenizer(writer, pre);
  } catch (const Error& error) {
    return {error.what(), error.exit_status()};
  }
  return {};
}

void check_message(const Failure& failure, std::initializer_list<std::string_view> parts, int status = 3) {
  INFO("message: " << failure.message);
  CHECK(failure.status == status);
  CHECK(failure.message.find('\n') == std::string::npos);
  for (const auto part : parts) {
    INFO("wanted: " << part);
    CHECK(failure.message.find(part) != std::string::npos);
  }
}

template <typename T>
void set_array(gguf::Writer& writer, std::string_view key, size_t n) {
  const std::vector<T> values(n, T(1));
  writer.set_array(key, std::span<const T>(values));
}

}  // namespace

TEST_CASE("the small vocabularies of these tests are good themselves") {
  CHECK(load(small_spm().writer()).message == "");
  CHECK(load(small_bpe().writer()).message == "");
  CHECK(load(small_bpe().writer({"scores"})).message == "");
  CHECK(load(small_spm().writer({"token_type"})).message == "");
}

TEST_CASE("a vocabulary's arrays are checked against each other") {
  SECTION("no tokenizer, no tokens, no scores, no merges") {
    check_message(load(small_spm().writer({"model"})), {"tokenizer.ggml.model", "missing"});
    check_message(load(small_spm().writer({"tokens"})), {"tokenizer.ggml.tokens", "missing"});
    check_message(load(small_spm().writer({"scores"})), {"tokenizer.ggml.scores", "missing"});
    check_message(load(small_bpe().writer({"merges"})), {"tokenizer.ggml.merges", "missing"});
  }
  SECTION("a kind of tokenizer that is not known") {
    SmallVocab vocab = small_spm();
    vocab.model = "rwkv";
    check_message(load(vocab.writer()), {"tokenizer.ggml.model", "'rwkv'", "llama", "gpt2", "t5", "bert"});
  }
  SECTION("types of another width, or another number of them") {
    gguf::Writer narrow = small_spm().writer({"token_type"});
    set_array<uint8_t>(narrow, "tokenizer.ggml.token_type", 260);
    check_message(load(narrow), {"token_type", "u8", "i32"});
    gguf::Writer few = small_spm().writer({"token_type"});
    set_array<int32_t>(few, "tokenizer.ggml.token_type", 259);
    check_message(load(few), {"token_type", "259", "260"});
    gguf::Writer many = small_spm().writer({"token_type"});
    set_array<int32_t>(many, "tokenizer.ggml.token_type", 261);
    check_message(load(many), {"token_type", "261", "260"});
    SmallVocab odd = small_spm();
    odd.entries[5].kind = TokenKind(9);
    check_message(load(odd.writer()), {"token_type", "entry 5 is 9", "0 to 6"});
  }
  SECTION("scores of another type, another number of them, or none") {
    gguf::Writer integers = small_spm().writer({"scores"});
    set_array<int16_t>(integers, "tokenizer.ggml.scores", 260);
    check_message(load(integers), {"scores", "i16", "f32"});
    gguf::Writer few = small_spm().writer({"scores"});
    set_array<float>(few, "tokenizer.ggml.scores", 12);
    check_message(load(few), {"scores", "12", "260"});
    SmallVocab nan = small_spm();
    nan.entries[7].score = NAN;
    check_message(load(nan.writer()), {"scores", "entry 7"});
  }
  SECTION("tokens that are no strings, none at all, or twice the same") {
    gguf::Writer numbers = small_spm().writer({"tokens"});
    set_array<int32_t>(numbers, "tokenizer.ggml.tokens", 260);
    check_message(load(numbers), {"tokens", "i32", "string"});
    SmallVocab none = small_spm();
    none.entries.clear();
    check_message(load(none.writer()), {"tokens", "0 entries"});
    SmallVocab twice = small_spm();
    twice.add("ab");
    check_message(load(twice.writer()), {"tokens", "259 and 260", "'ab'"});
  }
  SECTION("merges that do not fit the vocabulary") {
    const auto with_merge = [](const char* merge) {
      SmallVocab vocab = small_bpe();
      vocab.merges.push_back(merge);
      return load(vocab.writer());
    };
    check_message(with_merge("zz y"), {"merges", "entry 1", "'zz y'", "not in the vocabulary"});
    check_message(with_merge("y zz"), {"merges", "entry 1", "'y zz'", "not in the vocabulary"});
    check_message(with_merge("x y"), {"merges", "entry 1", "'x y'", "not in the vocabulary"});
    check_message(with_merge("xy"), {"merges", "entry 1", "'xy'"});
    check_message(with_merge("x "), {"merges", "entry 1"});
    check_message(with_merge(""), {"merges", "entry 1"});
    gguf::Writer numbers = small_bpe().writer({"merges"});
    set_array<int32_t>(numbers, "tokenizer.ggml.merges", 1);
    check_message(load(numbers), {"merges", "i32", "string"});
  }
}

TEST_CASE("special ids have to lie in the vocabulary") {
  for (const char* key : {"bos", "eos", "eot", "eom", "unknown"}) {
    const std::string name = "tokenizer.ggml." + std::string(key) + "_token_id";
    gguf::Writer far = small_spm().writer();
    far.set(name, uint32_t(1000000));
    check_message(load(far), {name, "1000000", "0 to 259"});
    gguf::Writer just = small_spm().writer();
    just.set(name, uint32_t(260));
    check_message(load(just), {name, "260", "0 to 259"});
    gguf::Writer none = small_spm().writer();
    none.set(name, int32_t(-1));
    CHECK(load(none).message == "");
    gguf::Writer text = small_spm().writer();
    text.set(name, "eos");
    check_message(load(text), {name, "string"});
  }
}

TEST_CASE("a pre-tokenizer that is not known is quoted, with the way out") {
  SmallVocab vocab = small_bpe();
  vocab.pre = "foo";
  check_message(load(vocab.writer()), {"tokenizer.ggml.pre", "'foo'", "--pre NAME", "llama-bpe", "qwen2", "smollm"});
  CHECK(load(vocab.writer(), "qwen2").message == "");
  check_message(load(vocab.writer(), "bar"), {"--pre", "'bar'", "qwen2"}, 2);
}

TEST_CASE("a missing pre-tokenizer name is said aloud, and the override silences it") {
  for (const char* kept : {"", "qwen2"}) {
    const WrittenTokenizer tokenizer(small_bpe().writer({"pre"}), kept);
    CHECK(tokenizer.warnings.size() == (*kept ? 0 : 1));
    for (const std::string& warning : tokenizer.warnings) {
      CHECK(warning.find("tokenizer.ggml.pre") != std::string::npos);
      CHECK(warning.find("--pre NAME") != std::string::npos);
    }
  }
  CHECK(WrittenTokenizer(small_bpe().writer()).warnings.empty());
  CHECK(WrittenTokenizer(small_spm().writer({"pre"})).warnings.empty());
}

TEST_CASE("every pre-tokenizer of the table compiles and cuts") {
  std::string names = text::pre_tokenizer_names() + ", ";
  size_t n = 0;
  for (size_t at = 0, end; (end = names.find(", ", at)) != std::string::npos; at = end + 2, ++n) {
    const std::string name = names.substr(at, end - at);
    INFO(name);
    REQUIRE(text::find_pre_tokenizer(name));
    const text::PreTokenizer pre(*text::find_pre_tokenizer(name));
    const std::string text = "Hello  world's 12345\r\n\r\n  x\t!? 中文 e\xcc\x81 \xc2\xa0";
    std::vector<uint32_t> ends;
    pre.split(text, ends);
    CHECK(ends.size() > 3);  // superbpe cuts at numbers alone
    CHECK(ends.back() == text.size());
    CHECK(std::is_sorted(ends.begin(), ends.end()));
  }
  CHECK(n > 50);
}

TEST_CASE("an id outside the vocabulary is an error, not a crash") {
  const WrittenTokenizer tokenizer(small_spm().writer());
  for (const TokenId id : {-1, 260, INT32_MAX, INT32_MIN}) {
    CHECK_THROWS_AS(tokenizer->piece(id, true), Error);
    CHECK_THROWS_AS(tokenizer->kind(id), Error);
    CHECK_THROWS_AS(tokenizer->text(id), Error);
    CHECK_THROWS_AS(tokenizer->decode(std::vector<TokenId>{3, id}, true), Error);
    CHECK(!tokenizer->is_end(id));
  }
}
