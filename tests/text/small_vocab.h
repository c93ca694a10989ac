// Small vocabularies, written as the keys of a GGUF header and read back: what the tokenizer tests and its fuzz target
// build on.
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/utf8.h"
#include "gguf/writer.h"
#include "text/tokenizer.h"
#include "text/vocab.h"

namespace quern::test {

/// A vocabulary in the making: entries of any kind, then a GGUF header.
struct SmallVocab {
  struct Entry {
    std::string text;
    TokenKind kind = TokenKind::kNormal;
    float score = 0;
  };
  std::string model = "llama", pre = "gpt-2";
  std::vector<Entry> entries;
  std::vector<std::string> merges;

  /// <unk>, <s>, </s> and the 256 bytes, as SentencePiece has them: ids 0, 1, 2 and 3 … 258.
  static SmallVocab sentence_piece() {
    SmallVocab vocab;
    vocab.entries = {{"<unk>", TokenKind::kUnknown}, {"<s>", TokenKind::kControl}, {"</s>", TokenKind::kControl}};
    for (int b = 0; b < 256; ++b) vocab.entries.push_back({fmt::format("<0x{:02X}>", b), TokenKind::kByte});
    return vocab;
  }
  /// The 256 bytes of a byte-level vocabulary: ids 0 … 255.
  static SmallVocab byte_level() {
    SmallVocab vocab;
    vocab.model = "gpt2";
    for (int b = 0; b < 256; ++b) vocab.entries.push_back({stand_in(uint8_t(b))});
    return vocab;
  }
  static std::string stand_in(uint8_t byte) {
    std::string text;
    utf8_append(text, text::byte_to_stand_in(byte));
    return text;
  }

  TokenId add(std::string text, TokenKind kind = TokenKind::kNormal, float score = 0) {
    entries.push_back({std::move(text), kind, score});
    return TokenId(entries.size() - 1);
  }
  /// Adds the merge and its result.
  TokenId add_merge(const std::string& left, const std::string& right) {
    merges.push_back(left + ' ' + right);
    return add(left + right);
  }

  /// The keys of a good file; tests leave some out or write them otherwise.
  gguf::Writer writer(std::initializer_list<std::string_view> without = {}) const {
    gguf::Writer out;
    const auto wanted = [&](std::string_view key) {
      return std::find(without.begin(), without.end(), key) == without.end();
    };
    std::vector<std::string_view> texts, merge_views(merges.begin(), merges.end());
    std::vector<float> scores;
    std::vector<int32_t> types;
    for (const Entry& entry : entries) {
      texts.push_back(entry.text);
      scores.push_back(entry.score);
      types.push_back(int32_t(entry.kind));
    }
    if (wanted("model")) out.set("tokenizer.ggml.model", model);
    if (wanted("pre")) out.set("tokenizer.ggml.pre", pre);
    if (wanted("tokens")) out.set_array("tokenizer.ggml.tokens", std::span<const std::string_view>(texts));
    if (wanted("scores")) out.set_array("tokenizer.ggml.scores", std::span<const float>(scores));
    if (wanted("token_type")) out.set_array("tokenizer.ggml.token_type", std::span<const int32_t>(types));
    if (wanted("merges") && model == "gpt2") {
      out.set_array("tokenizer.ggml.merges", std::span<const std::string_view>(merge_views));
    }
    return out;
  }
};

/// A tokenizer from keys in memory.
class WrittenTokenizer {
 public:
  /// @throws Error as from_gguf does.
  explicit WrittenTokenizer(const gguf::Writer& writer, std::string_view pre = {})
      : bytes_(writer.header()),
        header_(gguf::parse(std::as_bytes(std::span(bytes_)), false)),
        tokenizer_(Tokenizer::from_gguf(header_, pre, &warnings)) {}
  const Tokenizer& operator*() const { return *tokenizer_; }
  const Tokenizer* operator->() const { return tokenizer_.get(); }
  const gguf::Header& header() const { return header_; }

 private:
  std::string bytes_;
  gguf::Header header_;

 public:
  std::vector<std::string> warnings;

 private:
  std::unique_ptr<Tokenizer> tokenizer_;
};

}  // namespace quern::test
