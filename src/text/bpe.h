// BPE by a merge list: a word's bytes (or characters) are its first symbols, pairs merge in the order of the list.
// Words come from the pre-tokenizer; this knows nothing of how they were cut.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "gguf/gguf.h"
#include "text/merge_queue.h"
#include "text/vocab.h"

namespace quern::text {

class MergeListModel {
 public:
  /// The vocabulary must outlive the model; its kind says whether words begin as bytes or as characters.
  /// @throws Error(kModel): no merges, or one that names a token that is not in the vocabulary.
  MergeListModel(const Vocab& vocab, const gguf::Header& header);

  /// Memory that is kept from one call to the next.
  struct Scratch {
    MergeQueue queue;
    std::vector<TokenId> ids;
    std::vector<uint32_t> begins;  ///< of characters, in bytes of the word
    std::string stand_ins;
  };

  /// Appends the ids of one word. A character without an entry becomes its bytes; a byte without one is dropped, as the
  /// reference does. `whole`: a word that is an entry itself is taken without merging.
  void encode_word(std::string_view word, bool whole, Scratch& scratch, std::vector<TokenId>& out) const;

  /// How many bytes of `text` encoding would drop.
  size_t n_missing_bytes(std::string_view text) const;

 private:
  struct Slot {
    TokenId left, right;
    uint32_t rank_plus_1;  ///< 0: empty
  };
  size_t slot_of(TokenId left, TokenId right) const;
  void add_merge(size_t rank, TokenId left, TokenId right);
  uint32_t rank(TokenId left, TokenId right) const;
  TokenId whole_word(std::string_view word, std::string& stand_ins) const;

  void first_symbols(std::string_view word, Scratch& scratch) const;

  const Vocab& vocab_;
  bool byte_level_;
  std::vector<TokenId> bytes_;
  std::vector<Slot> slots_;      ///< open addressing
  std::vector<TokenId> merged_;  ///< what merge i gives
};

}  // namespace quern::text
