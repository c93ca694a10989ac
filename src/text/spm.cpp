// SentencePiece-style merging.
#include "text/spm.h"

#include <bit>

namespace quern::text {

namespace {

constexpr std::string_view kSpace = "\xe2\x96\x81";  // U+2581

/// Bytes that a leading byte announces, without looking at those that follow: the reference cuts characters in this
/// way, and what is not valid falls back to bytes just the same.
size_t announced_length(char lead) {
  const uint8_t b = uint8_t(lead);
  return b < 0xc0 ? 1 : b < 0xe0 ? 2 : b < 0xf0 ? 3 : 4;
}

/// Higher scores first, as an unsigned number that is smaller for them. Never MergeQueue::kNoMerge, which only NaN
/// would give.
uint32_t rank_of_score(float score) {
  const uint32_t bits = std::bit_cast<uint32_t>(score + 0.0f);  // −0 becomes +0
  const uint32_t ascending = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return ~ascending;
}

}  // namespace

SentencePieceModel::SentencePieceModel(const Vocab& vocab, TokenId unknown)
    : vocab_(vocab), unknown_(unknown), bytes_(byte_tokens(vocab)) {
  for (size_t i = 0; i < vocab.size(); ++i) {
    const std::string_view text = vocab.text(TokenId(i));
    for (size_t at = text.find(kSpace, 1); at != std::string_view::npos; at = text.find(kSpace, at + 1)) {
      if (at >= kSpace.size() && text.substr(at - kSpace.size(), kSpace.size()) == kSpace) continue;
      joins_space_[uint8_t(text[at - 1])] = true;
    }
  }
}

void SentencePieceModel::encode(std::string_view text, Scratch& scratch, std::vector<TokenId>& out) const {
  // Where no token reaches from before a space into it, nothing merges across that border, so the words are
  // independent: the same result from short pieces, whose tables stay in the cache.
  auto& begin = scratch.begin;
  auto& length = scratch.length;
  begin.clear();
  length.clear();
  for (size_t at = 0; at < text.size();) {
    if (!begin.empty() && text.substr(at, kSpace.size()) == kSpace && !joins_space_[uint8_t(text[at - 1])] &&
        !text.substr(0, at).ends_with(kSpace)) {
      encode_word(text, scratch, out);
      begin.clear();
      length.clear();
    }
    const size_t n = std::min(announced_length(text[at]), text.size() - at);
    begin.push_back(uint32_t(at));
    length.push_back(uint32_t(n));
    at += n;
  }
  if (!begin.empty()) encode_word(text, scratch, out);
}

void SentencePieceModel::encode_word(std::string_view text, Scratch& scratch, std::vector<TokenId>& out) const {
  auto& begin = scratch.begin;
  auto& length = scratch.length;
  const auto priority = [&](uint32_t left, uint32_t right) {
    const TokenId id = vocab_.find(text.substr(begin[left], length[left] + length[right]));
    return id == kNoToken ? MergeQueue::kNoMerge : rank_of_score(vocab_.score(id));
  };
  scratch.queue.run(uint32_t(begin.size()), priority,
                    [&](uint32_t left, uint32_t right, uint32_t) { length[left] += length[right]; });
  for (uint32_t i = 0; i != MergeQueue::kEnd; i = scratch.queue.next(i)) {
    const std::string_view symbol = text.substr(begin[i], length[i]);
    const TokenId id = vocab_.find(symbol);
    if (id != kNoToken) {
      out.push_back(id);
      continue;
    }
    for (const char c : symbol) {
      const TokenId byte = bytes_[uint8_t(c)];
      if (byte != kNoToken || unknown_ != kNoToken) out.push_back(byte != kNoToken ? byte : unknown_);
    }
  }
}

}  // namespace quern::text
