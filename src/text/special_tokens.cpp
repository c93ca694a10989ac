// The longest-first cut at special tokens.
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
    has_user_tokens_ |= !(attributes & (kAttrControl | kAttrUnknown));
    ids.push_back(TokenId(i));
  }
  trie_ = TokenTrie(vocab, std::move(ids));
}

SpecialTokens::Match SpecialTokens::longest(const Input& input, size_t at, size_t limit) const {
  Match best;
  size_t n_seen = 0;
  bool touches_plain = false;
  trie_.prefixes(input.text.substr(at, limit), [&](size_t n_bytes, TokenId token) {
    for (; n_seen < n_bytes; ++n_seen) touches_plain |= input.is_plain(at + n_seen);
    const bool always = !(vocab_.attributes(token) & (kAttrControl | kAttrUnknown));
    if (always || (input.parse_special && !touches_plain)) best = {n_bytes, token};
  });
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
