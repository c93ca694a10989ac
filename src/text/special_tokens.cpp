// The trie of special tokens and the longest-first cut.
#include "text/special_tokens.h"

#include <algorithm>

#include "base/check.h"

namespace quern::text {

namespace {

constexpr size_t kMaxSpecialBytes = 4096;

bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

}  // namespace

/// Which bytes of one text are taken, and by what.
class SpecialTokens::Placement {
 public:
  Placement(const Vocab& vocab, std::string_view text) : vocab_(vocab), text_(text), taken_(text.size(), 0) {}

  /// Free bytes from `at` on, counted up to `limit`.
  size_t room(size_t at, size_t limit) const {
    size_t n = 0;
    while (n < limit && at + n < text_.size() && !taken_[at + n]) ++n;
    return n;
  }

  void place(size_t at, Match match) {
    std::fill_n(taken_.begin() + ptrdiff_t(at), match.length, uint8_t(1));
    placed_.push_back({at, match});
    const uint16_t attributes = vocab_.attributes(match.token);
    size_t after = at + match.length;
    while ((attributes & kAttrStripRight) && after < text_.size() && !taken_[after] && is_space(text_[after]))
      taken_[after++] = 1;
    while ((attributes & kAttrStripLeft) && at > 0 && !taken_[at - 1] && is_space(text_[at - 1])) taken_[--at] = 1;
  }

  std::vector<Fragment> fragments() {
    std::sort(placed_.begin(), placed_.end(), [](const auto& a, const auto& b) { return a.at < b.at; });
    std::vector<Fragment> out;
    size_t at = 0;
    const auto add_text_until = [&](size_t end) {
      while (at < end) {
        const size_t n = room(at, end - at);
        if (n > 0) out.push_back({kNoToken, text_.substr(at, n)});
        at += n;
        while (at < end && taken_[at]) ++at;  // white space that a token swallowed
      }
    };
    for (const Placed& token : placed_) {
      add_text_until(token.at);
      out.push_back({token.match.token, {}});
      at = token.at + token.match.length;
    }
    add_text_until(text_.size());
    return out;
  }

 private:
  struct Placed {
    size_t at;
    Match match;
  };
  const Vocab& vocab_;
  std::string_view text_;
  std::vector<uint8_t> taken_;
  std::vector<Placed> placed_;
};

SpecialTokens::SpecialTokens(const Vocab& vocab) : vocab_(vocab) {
  std::vector<TokenId> ids;
  for (size_t i = 0; i < vocab.size(); ++i) {
    const uint16_t attributes = vocab.attributes(TokenId(i));
    if (!(attributes & (kAttrControl | kAttrUserDefined | kAttrUnknown)) || vocab.text(TokenId(i)).empty()) continue;
    const size_t n_bytes = vocab.text(TokenId(i)).size();
    if (n_bytes > kMaxSpecialBytes) {
      throw_error(ErrorKind::kModel, "special token {} has {} bytes, allowed are {}", i, n_bytes, kMaxSpecialBytes);
    }
    longest_ = std::max(longest_, n_bytes);
    ids.push_back(TokenId(i));
  }
  build(std::move(ids));
}

void SpecialTokens::build(std::vector<TokenId> ids) {
  std::sort(ids.begin(), ids.end(), [&](TokenId a, TokenId b) { return vocab_.text(a) < vocab_.text(b); });
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
    if (first != kNoToken &&
        vocab_.text(first).size() == range.depth) {  // the shortest sorts first, and texts are distinct
      Node& node = nodes_[range.node];
      node.any_token = first;
      const uint16_t attributes = vocab_.attributes(first);
      if (!(attributes & (kAttrControl | kAttrUnknown))) node.user_token = first, has_user_tokens_ = true;
      ++range.begin;
    }
    nodes_[range.node].first_child = uint32_t(nodes_.size());
    for (size_t begin = range.begin; begin < range.end;) {
      const uint8_t byte = uint8_t(vocab_.text(ids[begin])[range.depth]);
      size_t end = begin;
      while (end < range.end && uint8_t(vocab_.text(ids[end])[range.depth]) == byte) ++end;
      waiting.push_back({uint32_t(nodes_.size()), begin, end, range.depth + 1});
      if (range.depth == 0) roots_[byte] = uint32_t(nodes_.size());
      nodes_.push_back(Node{});
      nodes_.back().byte = byte;
      ++nodes_[range.node].n_children;
      begin = end;
    }
  }
}

const SpecialTokens::Node* SpecialTokens::child(const Node& node, uint8_t byte) const {
  const Node* begin = nodes_.data() + node.first_child;
  const Node* end = begin + node.n_children;
  const Node* found = std::lower_bound(begin, end, byte, [](const Node& n, uint8_t b) { return n.byte < b; });
  return found != end && found->byte == byte ? found : nullptr;
}

SpecialTokens::Match SpecialTokens::longest(const Input& input, size_t at, size_t limit) const {
  const std::string_view text = input.text;
  Match best;
  bool touches_plain = false;
  limit = std::min(limit, text.size() - at);
  const uint32_t root = limit > 0 ? roots_[uint8_t(text[at])] : 0;
  const Node* node = root ? &nodes_[root] : nullptr;
  for (size_t n = 1; node; ++n) {
    touches_plain |= input.is_plain(at + n - 1);
    const TokenId token = input.parse_special && !touches_plain ? node->any_token : node->user_token;
    if (token != kNoToken) best = {n, token};
    node = n < limit ? child(*node, uint8_t(text[at + n])) : nullptr;
  }
  return best;
}

std::vector<Fragment> SpecialTokens::partition(std::string_view text, bool parse_special,
                                               std::span<const ByteRange> plain) const {
  if (text.empty()) return {};
  Input input{text, parse_special, {}};
  if (!plain.empty()) input.plain.resize(text.size());
  for (const ByteRange& range : plain) std::fill(input.plain.begin() + ptrdiff_t(range.begin), input.plain.begin() + ptrdiff_t(range.end), true);
  // Candidates by length. A position that loses its room to a longer token waits again under its next shorter one.
  std::vector<std::vector<size_t>> by_length(longest_ + 1);
  bool any = false;
  if (parse_special || has_user_tokens_) {
    for (size_t at = 0; at < text.size(); ++at) {
      const Match match = longest(input, at, longest_);
      if (match.length > 0) by_length[match.length].push_back(at), any = true;
    }
  }
  if (!any) return {{kNoToken, text}};
  Placement placement(vocab_, text);
  for (size_t length = longest_; length > 0; --length) {
    auto& candidates = by_length[length];
    if (!std::is_sorted(candidates.begin(), candidates.end())) std::sort(candidates.begin(), candidates.end());
    for (const size_t at : candidates) {
      const size_t room = placement.room(at, length);
      const Match match = longest(input, at, room);
      if (match.length == length)
        placement.place(at, match);
      else if (match.length > 0)
        by_length[match.length].push_back(at);
    }
    candidates = {};
  }
  return placement.fragments();
}

}  // namespace quern::text
