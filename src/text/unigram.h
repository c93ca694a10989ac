// SentencePiece unigram: of all ways to write a text as tokens, the one whose scores (log probabilities) add up to
// most. Kudo (2018), arXiv 1804.10959. Works on text that is normalized, its spaces written as U+2581.
#pragma once
#include <string_view>
#include <vector>

#include "text/trie.h"
#include "text/vocab.h"

namespace quern::text {

class UnigramModel {
 public:
  /// The vocabulary must outlive the model. `unknown`: what characters without an entry become, a run of them one token
  /// (kNoToken: they are dropped).
  UnigramModel(const Vocab& vocab, TokenId unknown);

  /// Memory that is kept from one call to the next.
  struct Scratch {
    struct Best {
      double score;    ///< of the best way to write the text up to here
      uint32_t begin;  ///< of the last token of that way
      TokenId token;
    };
    std::vector<Best> best;  ///< by offset
  };

  /// Appends the ids of `text`. The time is linear in its length.
  void encode(std::string_view text, Scratch& scratch, std::vector<TokenId>& out) const;

 private:
  double score(TokenId id) const;

  const Vocab& vocab_;
  TokenId unknown_;
  double unknown_score_;
  TokenTrie trie_;
};

}  // namespace quern::text
