// WordPiece on a vocabulary small enough to see; the folding tables where they have rules instead of rows.
#include <catch2/catch.hpp>

#include "text/tokenizer_fixture.h"
#include "text/unicode_fold.h"

using namespace quern;
using namespace quern::test;

namespace {

using Ids = std::vector<TokenId>;

/// [UNK] [CLS] [SEP], then the beginnings of words un, a, e, comma, 中 and the continuations aff, able, a, b: ids 3
/// … 11.
SmallVocab affable() {
  SmallVocab vocab;
  vocab.model = "bert";
  vocab.entries = {{"[UNK]", TokenKind::kControl}, {"[CLS]", TokenKind::kControl}, {"[SEP]", TokenKind::kControl}};
  for (const char* text : {"\xe2\x96\x81un",
                           "\xe2\x96\x81"
                           "a",
                           "\xe2\x96\x81"
                           "e",
                           "\xe2\x96\x81,", "\xe2\x96\x81中", "aff", "able", "a", "b"})
    vocab.add(text);
  return vocab;
}

}  // namespace

TEST_CASE("WordPiece takes the longest entries from left to right, or a whole word as unknown") {
  const WrittenTokenizer tokenizer(affable().writer({"scores"}));
  CHECK(tokenizer->encode("", {}).empty());
  CHECK(tokenizer->encode(" \t\n", {}).empty());
  CHECK(tokenizer->encode("unaffable", {}) == Ids{3, 8, 9});
  CHECK(tokenizer->encode("UNaffABLE", {}) == Ids{3, 8, 9});
  CHECK(tokenizer->encode("unaffablz", {}) == Ids{0});
  CHECK(tokenizer->encode("a,a", {}) == Ids{4, 6, 4});
  CHECK(tokenizer->encode("a中中b", {}) == Ids{4, 7, 7, 0});  // no word begins with b
  CHECK(tokenizer->encode("\xc3\xa9 e\xcc\x81", {}) == Ids{5, 5});
  CHECK(tokenizer->encode("a\xe2\x80\x8b"
                          "b\x01"
                          "a\xff"
                          "b",
                          {}) == Ids{4, 11, 10, 11});  // what is not text is left out
  CHECK(tokenizer->encode("a", {.add_special = true}) == Ids{1, 4, 2});
  CHECK(tokenizer->encode("a[SEP]a", {.add_special = true, .parse_special = true}) == Ids{1, 4, 2, 4, 2});
  CHECK(tokenizer->decode(Ids{3, 8, 9, 6, 4}, false) == " unaffable, a");
}

TEST_CASE("WordPiece keeps case and accents where the file says so") {
  gguf::Writer cased = affable().writer();
  cased.set("tokenizer.ggml.normalizer.lowercase", false);
  CHECK(WrittenTokenizer(cased)->encode("a A \xc3\xa9", {}) == Ids{4, 0, 0});
  cased.set("tokenizer.ggml.normalizer.strip_accents", true);
  CHECK(WrittenTokenizer(cased)->encode("a A \xc3\xa9", {}) == Ids{4, 0, 5});
}

TEST_CASE("encoding by WordPiece takes linear time") {
  const WrittenTokenizer tokenizer(affable().writer());
  for (const std::string unit : {"a", "z", ",", " ", "a\xcc\x81"}) {
    std::string text;
    while (text.size() < 1000000) text += unit;
    // A square of a million would take many minutes and trip ctest's limit; there is no timed assertion.
    const size_t n = tokenizer->encode(text, {}).size();
    CHECK(n == (unit == " " ? 0 : unit == "z" ? 1 : text.size() / unit.size()));
  }
}

TEST_CASE("folding") {
  using text::unicode_base, text::unicode_lower;
  CHECK(unicode_base('A') == 'A');
  CHECK(unicode_base(0xC5) == 'A');
  CHECK(unicode_base(0x1EA4) == 'A');     // two accents
  CHECK(unicode_base(0x212B) == 'A');     // the angstrom sign, by way of Å
  CHECK(unicode_base(0xD55C) == 0x1112);  // Hangul by rule
  CHECK(unicode_base(0xD7A3) == 0x1112);
  CHECK(unicode_base(0xD7A4) == 0xD7A4);
  CHECK(unicode_base(0x2FA1D) == 0x2A600);  // the last row
  CHECK(unicode_base(0x10FFFF) == 0x10FFFF);
  CHECK(unicode_lower('A') == 'a');
  CHECK(unicode_lower('@') == '@');
  CHECK(unicode_lower(0x130) == 'i');
  CHECK(unicode_lower(0x1C4) == 0x1C6);
  CHECK(unicode_lower(0x1C5) == 0x1C6);
  CHECK(unicode_lower(0x10594) == 0x105BB);
  CHECK(unicode_lower(0x1E921) == 0x1E943);  // the last row
}
