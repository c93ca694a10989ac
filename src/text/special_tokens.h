// Cutting text at special tokens, before anything else sees it. A longer token wins over a shorter one wherever the two
// overlap, as in the reference, which searches the whole text for one token after another, longest first; here one pass
// through a trie finds the candidates.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"
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
  /// The children of a node lie side by side, ordered by their byte.
  struct Node {
    uint32_t first_child = 0;
    uint16_t n_children = 0;
    uint8_t byte = 0;
    TokenId user_token = kNoToken;  ///< the token that ends here, when it is always recognised
    TokenId any_token = kNoToken;   ///< the token that ends here
  };
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

  void build(std::vector<TokenId> ids);
  const Node* child(const Node& node, uint8_t byte) const;
  /// The longest token at `at` that has at most `limit` bytes; length 0 when there is none.
  Match longest(const Input& input, size_t at, size_t limit) const;

  const Vocab& vocab_;
  std::vector<Node> nodes_;
  uint32_t roots_[256] = {};  ///< node of a first byte, 0 for none
  size_t longest_ = 0;
  bool has_user_tokens_ = false;
};

}  // namespace quern::text
