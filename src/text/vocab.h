// The vocabulary of a GGUF file as tables: texts (views into the file), attributes, scores, and a hash table from text
// to id. Loading must be quick, since the first token waits for it: nothing is copied per token, and the hash table is
// one array. Knows nothing of how text is split or merged.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/gguf.h"
#include "text/tokenizer.h"

namespace quern::text {

/// What a token is. A token may be several things at once: an end-of-turn entry that the file calls normal is control
/// as well.
enum Attribute : uint16_t {
  kAttrUnknown = 1,
  kAttrUnused = 2,
  kAttrNormal = 4,
  kAttrControl = 8,
  kAttrUserDefined = 16,
  kAttrByte = 32,
  kAttrStripLeft = 64,    ///< white space in front of it is dropped when it is recognised in text
  kAttrStripRight = 128,  ///< likewise the white space after it
  kAttrShown = 256,       ///< control, yet shown in output: carries structure that a front end needs
};

enum class VocabKind : uint8_t {
  kSentencePiece,
  kByteLevel,
  kCharacterBpe,  ///< BPE by a merge list, as kByteLevel, over characters with spaces as U+2581, as kSentencePiece
  kUnigram,
  kWordPiece
};

class Vocab {
 public:
  /// Reads tokens, scores and types, and checks them against each other. `kind` decides whether scores are needed.
  /// @throws Error(kModel) naming key, value found, value allowed.
  Vocab(const gguf::Header& header, VocabKind kind);

  VocabKind kind() const { return kind_; }
  size_t size() const { return texts_.size(); }
  std::string_view text(TokenId id) const { return texts_[size_t(id)]; }
  uint16_t attributes(TokenId id) const { return attributes_[size_t(id)]; }
  uint16_t& attributes(TokenId id) { return attributes_[size_t(id)]; }
  float score(TokenId id) const;
  /// Bytes of the longest text.
  size_t longest() const { return longest_; }
  /// The id of an entry by its exact stored text, or kNoToken. Empty entries are not found.
  TokenId find(std::string_view text) const { return text.size() > longest_ ? kNoToken : find_in_table(text); }

 private:
  void read_types(const gguf::Header& header);
  void read_scores(const gguf::Header& header);
  void index_texts();
  TokenId find_in_table(std::string_view text) const;

  VocabKind kind_;
  std::vector<std::string_view> texts_;
  std::vector<uint16_t> attributes_;
  std::span<const std::byte> scores_;  ///< little-endian floats, not necessarily aligned; empty when the file has none
  std::vector<uint64_t> slots_;        ///< open addressing: upper half of the hash, then id + 1; 0 is empty
  size_t longest_ = 0;
};

/// The 256 entries that stand for single bytes: "<0x0A>" (or the byte itself) for SentencePiece, the printable stand-in
/// characters of GPT-2 for byte-level vocabularies. kNoToken where there is none.
std::vector<TokenId> byte_tokens(const Vocab& vocab);

/// The byte that a "<0xXX>" text names, or -1.
int parse_byte_text(std::string_view text);

/// GPT-2's byte alphabet: the code point that stands for a byte, and back (-1 for any other code point).
uint32_t byte_to_stand_in(uint8_t byte);
int stand_in_to_byte(uint32_t code_point);

}  // namespace quern::text
