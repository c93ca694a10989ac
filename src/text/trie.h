// All tokens that begin at one place of a text, in one walk: a trie over the bytes of some of a vocabulary's entries.
// Knows nothing of what the entries are for.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/vocab.h"

namespace quern::text {

class TokenTrie {
 public:
  TokenTrie() = default;
  /// `ids`: entries with texts that are not empty (a vocabulary's texts are distinct).
  TokenTrie(const Vocab& vocab, std::vector<TokenId> ids);

  /// Calls found(n_bytes, id) for every entry that `text` begins with, the shortest first.
  template <typename Found>
  void prefixes(std::string_view text, Found&& found) const {
    if (text.empty()) return;
    uint32_t at = roots_[uint8_t(text[0])];
    for (size_t n = 1; at != 0; ++n) {
      if (nodes_[at].token != kNoToken) found(n, nodes_[at].token);
      at = n < text.size() ? child(at, uint8_t(text[n])) : 0;
    }
  }

 private:
  /// The children of a node lie side by side, ordered by their byte.
  struct Node {
    uint32_t first_child = 0;
    uint16_t n_children = 0;
    uint8_t byte = 0;
    TokenId token = kNoToken;  ///< the entry that ends here
  };
  /// 0 when there is none: the root is nobody's child.
  uint32_t child(uint32_t parent, uint8_t byte) const {
    const Node* begin = nodes_.data() + nodes_[parent].first_child;
    const Node* end = begin + nodes_[parent].n_children;
    const Node* found = std::lower_bound(begin, end, byte, [](const Node& n, uint8_t b) { return n.byte < b; });
    return found != end && found->byte == byte ? uint32_t(found - nodes_.data()) : 0;
  }

  std::vector<Node> nodes_;
  uint32_t roots_[256] = {};  ///< node of a first byte, 0 for none
};

}  // namespace quern::text
