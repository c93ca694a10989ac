// Cutting text at special tokens, before anything else sees it. A longer token wins over a shorter one wherever the two
// overlap, as in the reference, which searches the whole text for one token after another, longest first; here one pass
// through a trie finds the candidates.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"
#include "text/trie.h"
#include "text/vocab.h"

namespace quern::text {

/// Either a token or a stretch of ordinary text.
struct Fragment {
  TokenId token = kNoToken;
  std::string_view text;  ///< when token is kNoToken
};

class SpecialTokens {
 public:
  /// @throws Error(kModel) when a special token is unreasonably long.
  explicit SpecialTokens(const Vocab& vocab);

  /// The fragments of `text` in order, none of them empty. User-defined tokens are always recognised, control and
  /// unknown tokens only with `parse_special`, and never where they touch one of the `plain` ranges.
  std::vector<Fragment> partition(std::string_view text, bool parse_special, std::span<const ByteRange> plain = {}) const;

 private:
  struct Match {
    size_t length = 0;
    TokenId token = kNoToken;
  };
  class Placement;
  struct Input {
    std::string_view text;
    bool parse_special;
    std::vector<bool> plain;  ///< bytes of plain ranges; empty when there are none
    bool is_plain(size_t at) const { return !plain.empty() && plain[at]; }
  };

  /// The longest token at `at` that has at most `limit` bytes; length 0 when there is none.
  Match longest(const Input& input, size_t at, size_t limit) const;

  const Vocab& vocab_;
  TokenTrie trie_;
  size_t longest_ = 0;
  bool has_user_tokens_ = false;
};

}  // namespace quern::text
