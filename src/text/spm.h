// SentencePiece-style BPE: pairs merge by the score of the token they would become; what is no token falls back to
// bytes. Works on text whose spaces are already written as U+2581.
#pragma once
#include <array>
#include <string_view>
#include <vector>

#include "text/merge_queue.h"
#include "text/vocab.h"

namespace quern::text {

class SentencePieceModel {
 public:
  /// The vocabulary must outlive the model. `unknown`: what a byte without an entry becomes (kNoToken: it is dropped).
  SentencePieceModel(const Vocab& vocab, TokenId unknown);

  /// Memory that is kept from one call to the next.
  struct Scratch {
    MergeQueue queue;
    std::vector<uint32_t> begin, length;  ///< of each symbol, in bytes of the text
  };

  /// Appends the ids of `text` (spaces written as U+2581).
  void encode(std::string_view text, Scratch& scratch, std::vector<TokenId>& out) const;

 private:
  /// Merges the characters that `scratch` lists.
  void encode_word(std::string_view text, Scratch& scratch, std::vector<TokenId>& out) const;

  const Vocab& vocab_;
  TokenId unknown_;
  std::vector<TokenId> bytes_;
  std::array<bool, 256> joins_space_{};  ///< whether some token has this byte directly before an inner U+2581
};

}  // namespace quern::text
