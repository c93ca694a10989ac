// Building the trie.
#include "text/trie.h"

namespace quern::text {

TokenTrie::TokenTrie(const Vocab& vocab, std::vector<TokenId> ids) {
  std::sort(ids.begin(), ids.end(), [&](TokenId a, TokenId b) { return vocab.text(a) < vocab.text(b); });
  // Breadth first: each waiting range holds the sorted texts that pass through `node` after `depth` bytes.
  struct Range {
    uint32_t node;
    size_t begin, end, depth;
  };
  nodes_.assign(1, Node{});
  std::vector<Range> waiting = {{0, 0, ids.size(), 0}};
  for (size_t w = 0; w < waiting.size(); ++w) {
    Range range = waiting[w];
    const TokenId first = range.begin < range.end ? ids[range.begin] : kNoToken;
    if (first != kNoToken && vocab.text(first).size() == range.depth) {  // the shortest sorts first
      nodes_[range.node].token = first;
      ++range.begin;
    }
    nodes_[range.node].first_child = uint32_t(nodes_.size());
    for (size_t begin = range.begin; begin < range.end;) {
      const uint8_t byte = uint8_t(vocab.text(ids[begin])[range.depth]);
      size_t end = begin;
      while (end < range.end && uint8_t(vocab.text(ids[end])[range.depth]) == byte) ++end;
      waiting.push_back({uint32_t(nodes_.size()), begin, end, range.depth + 1});
      if (range.depth == 0) roots_[byte] = uint32_t(nodes_.size());
      nodes_.push_back(Node{});
      nodes_.back().byte = byte;
      ++nodes_[range.node].n_children;
      begin = end;
    }
  }
}

}  // namespace quern::text
