// The pre-tokenizers that no golden vocabulary covers, against their original patterns as Python's regex module runs them
// (tools/dev/make_pretokenizer_cases.py); and that long runs cost linear time.
#include "text/pretokenizer.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

using namespace quern;

namespace {

std::vector<std::string> words(const text::PreTokenizer& splitter, const std::string& text) {
  std::vector<uint32_t> ends;
  splitter.split(text, ends);
  std::vector<std::string> out;
  uint32_t begin = 0;
  for (const uint32_t end : ends) {
    out.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return out;
}

}  // namespace

TEST_CASE("pre-tokenizers cut as their original patterns do", "[pretokenizer]") {
  std::ifstream file(QUERN_SOURCE "/tests/text/pretokenizer_cases.json");
  const nlohmann::json cases = nlohmann::json::parse(file);
  REQUIRE(cases.size() >= 8);
  for (const auto& [name, texts] : cases.items()) {
    const text::PreTokenizerSpec* spec = text::find_pre_tokenizer(name);
    REQUIRE(spec);
    const text::PreTokenizer splitter(*spec);
    for (const auto& c : texts) {
      CAPTURE(name, c["text"].dump());
      CHECK(words(splitter, c["text"]) == c["words"].get<std::vector<std::string>>());
    }
  }
}

TEST_CASE("every pre-tokenizer of the table splits long runs in linear time and loses nothing", "[pretokenizer]") {
  const std::string names = text::pre_tokenizer_names();
  size_t n_names = 0;
  for (size_t at = 0; at < names.size(); ++n_names) {
    const size_t end = std::min(names.find(", ", at), names.size());
    const std::string name = names.substr(at, end - at);
    at = end + 2;
    const text::PreTokenizer splitter(*text::find_pre_tokenizer(name));
    for (const std::string unit : {"9", " ", "\n", "a", "A", "漢", "!", "a ", "\xcc\x81"}) {
      std::string text;
      while (text.size() < 200000) text += unit;
      CAPTURE(name, unit);
      // A square of 200,000 would take minutes and trip ctest's limit; there is no timed assertion.
      std::string joined;
      for (const std::string& word : words(splitter, text + "x")) joined += word;
      REQUIRE(joined == text + "x");
    }
  }
  CHECK(n_names >= 80);
}
