// WordPiece, as BERT has it: text is folded (accents and case, where the file says so) and cut at white space and
// around punctuation and Han characters; a word is then the longest entries from left to right, or unknown as a whole.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/gguf.h"
#include "text/trie.h"
#include "text/vocab.h"

namespace quern::text {

class WordPieceModel {
 public:
  /// Reads tokenizer.ggml.normalizer.lowercase (true where absent) and .strip_accents (as lowercase). The vocabulary
  /// must outlive the model. `unknown`: what a word that cannot be written becomes (kNoToken: it is dropped).
  WordPieceModel(const Vocab& vocab, const gguf::Header& header, TokenId unknown);
  WordPieceModel(WordPieceModel&&) noexcept;
  ~WordPieceModel();

  /// Appends the ids of `text`, which is valid UTF-8 of less than 1 GiB.
  void encode(std::string_view text, std::vector<TokenId>& out) const;

 private:
  struct Splitter;
  std::string folded(std::string_view text) const;
  /// `word` begins with U+2581, as the entries that begin a word do.
  void encode_word(std::string_view word, std::vector<TokenId>& out) const;

  TokenId unknown_;
  bool lowercase_, strip_accents_;
  TokenTrie trie_;
  std::unique_ptr<Splitter> splitter_;
};

}  // namespace quern::text
