// The search for the best sequence, from left to right and then back.
#include "text/unigram.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/utf8.h"

namespace quern::text {

namespace {

/// SentencePiece's: an unknown character is this much less likely than the least likely token.
constexpr float kUnknownPenalty = 10.0f;

}  // namespace

UnigramModel::UnigramModel(const Vocab& vocab, TokenId unknown) : vocab_(vocab), unknown_(unknown) {
  std::vector<TokenId> ids;
  float lowest = std::numeric_limits<float>::max();
  for (size_t i = 0; i < vocab.size(); ++i) {
    const TokenId id = TokenId(i);
    const uint16_t attributes = vocab.attributes(id);
    if (attributes & kAttrNormal) lowest = std::min(lowest, vocab.score(id));
    if ((attributes & (kAttrNormal | kAttrUserDefined | kAttrUnused)) && !vocab.text(id).empty()) ids.push_back(id);
  }
  unknown_score_ = lowest - kUnknownPenalty;
  trie_ = TokenTrie(vocab, std::move(ids));
}

double UnigramModel::score(TokenId id) const {
  // A user-defined token costs nothing and so is preferred: scores are logarithms of probabilities, never above 0.
  return vocab_.attributes(id) & kAttrUserDefined ? 0.0 : double(vocab_.score(id));
}

void UnigramModel::encode(std::string_view text, Scratch& scratch, std::vector<TokenId>& out) const {
  if (text.empty()) return;
  if (text.size() >= UINT32_MAX)
    throw_error(ErrorKind::kUsage, "a text of {} bytes after normalization is too long for the tokenizer", text.size());
  auto& best = scratch.best;
  best.assign(text.size() + 1, {std::numeric_limits<double>::lowest(), 0, unknown_});
  best[0].score = 0.0;
  const auto offer = [&](size_t begin, size_t n_bytes, TokenId token, double token_score) {
    const double sum = best[begin].score + token_score;
    if (sum > best[begin + n_bytes].score) best[begin + n_bytes] = {sum, uint32_t(begin), token};
  };
  for (size_t at = 0; at < text.size();) {
    const size_t n_char = utf8_decode(text, at).n_bytes;
    bool has_char = false;
    trie_.prefixes(text.substr(at), [&](size_t n_bytes, TokenId token) {
      has_char |= n_bytes == n_char;
      offer(at, n_bytes, token, score(token));
    });
    if (!has_char) offer(at, n_char, unknown_, unknown_score_);
    at += n_char;
  }
  const auto first = ptrdiff_t(out.size());
  bool after_unknown = false;
  for (size_t end = text.size(); end > 0; end = best[end].begin) {
    const bool is_unknown = best[end].token == unknown_;
    if (!(is_unknown && (after_unknown || unknown_ == kNoToken))) out.push_back(best[end].token);
    after_unknown = is_unknown;
  }
  std::reverse(out.begin() + first, out.end());
}

}  // namespace quern::text
