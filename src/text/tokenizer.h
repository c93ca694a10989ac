// Bytes to token ids and back, by the vocabulary that a GGUF file carries. Any bytes are accepted (invalid UTF-8 and NUL
// included); time is linear in the input, without recursion. Reference behaviour: llama.cpp's llama_tokenize / llama_detokenize.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/gguf.h"

namespace quern {

using TokenId = int32_t;  // as in quern/engine.h
inline constexpr TokenId kNoToken = -1;

enum class TokenKind : uint8_t { kUndefined = 0, kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

/// Bytes [begin, end) of a text.
struct ByteRange {
  size_t begin = 0, end = 0;
};

struct EncodeOptions {
  bool add_special = false;    ///< BOS/EOS where the file's keys say so
  bool parse_special = false;  ///< the text of special (control) tokens becomes those tokens; otherwise it is plain text
  /// With add_special, a text that begins with BOS itself gets no second one (likewise EOS at its end). The reference adds one
  /// all the same; turn this off to compare with it.
  bool single_bos = true;
  /// The text goes on behind other text: a vocabulary that puts a space in front of a text does not do so here.
  bool continues = false;
  /// Ascending ranges of the text in which, parse_special or not, the text of control tokens stays plain text: what a user wrote
  /// inside a rendered template. Words are cut and merged as if the ranges were not there.
  std::span<const ByteRange> plain = {};
};

class Tokenizer {
 public:
  /// `pre_override`, when not empty, replaces the file's tokenizer.ggml.pre. Warnings (a missing pre-tokenizer name, say) go to
  /// `warnings` when given. The header's bytes must outlive the tokenizer.
  /// @throws Error(kModel): a kind or pre-tokenizer that is not known (quoted, with the names that are), arrays whose types or
  /// lengths do not fit each other, ids out of range.
  static std::unique_ptr<Tokenizer> from_gguf(const gguf::Header& header, std::string_view pre_override = {}, std::vector<std::string>* warnings = nullptr);
  virtual ~Tokenizer() = default;

  virtual std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options) const = 0;

  /// The bytes that a token stands for in running text: what streaming output prints. `special`: whether control tokens are
  /// shown as their text (otherwise they give nothing).
  virtual std::string piece(TokenId id, bool special) const = 0;
  /// The text of a token sequence, with the vocabulary's leading-space rule.
  virtual std::string decode(std::span<const TokenId> ids, bool special) const = 0;

  /// How many bytes of `text` the vocabulary cannot express (SmolLM2, say, has no entry for 0x04): encoding drops them, as the
  /// reference does, and the user should hear of it.
  virtual size_t n_lost_bytes(std::string_view text) const = 0;

  virtual size_t n_vocab() const = 0;
  virtual TokenKind kind(TokenId id) const = 0;
  /// The token's entry in the vocabulary as stored (for messages and templates).
  virtual std::string_view text(TokenId id) const = 0;
  /// The id of an entry by its exact stored text, or kNoToken.
  virtual TokenId find(std::string_view token_text) const = 0;

  TokenId bos() const { return bos_; }
  TokenId eos() const { return eos_; }
  bool add_bos() const { return add_bos_; }
  bool add_eos() const { return add_eos_; }
  /// Every token that ends generation: EOS, EOT/EOM keys, and the well-known end-of-turn entries (<|im_end|>, <end_of_turn>,
  /// <|eot_id|>, <|end|>, <|endoftext|> …) where the vocabulary has them as control or user-defined tokens. Ascending.
  const std::vector<TokenId>& end_tokens() const { return end_tokens_; }
  bool is_end(TokenId id) const;

 protected:
  TokenId bos_ = kNoToken, eos_ = kNoToken;
  bool add_bos_ = false, add_eos_ = false;
  std::vector<TokenId> end_tokens_;
};

}  // namespace quern
