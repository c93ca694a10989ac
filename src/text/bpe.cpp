// Merging and the merge table.
#include "text/bpe.h"

#include <algorithm>

#include "base/check.h"
#include "base/utf8.h"

namespace quern::text {

namespace {

constexpr std::string_view kMergesKey = "tokenizer.ggml.merges";

/// As in the vocabulary's table: a bound that only a table made to collide can reach.
constexpr size_t kMaxProbes = 2048;

bool is_concatenation(std::string_view whole, std::string_view left, std::string_view right) {
  return whole.size() == left.size() + right.size() && whole.starts_with(left) && whole.ends_with(right);
}

[[noreturn]] void bad_merge(size_t i, std::string_view merge, std::string_view why) {
  throw_error(ErrorKind::kModel, "{}: entry {} is {}: {}", kMergesKey, i, gguf::quoted(merge), why);
}

}  // namespace

MergeListModel::MergeListModel(const Vocab& vocab, const gguf::Header& header)
    : vocab_(vocab), byte_level_(vocab.kind() == VocabKind::kByteLevel), bytes_(byte_tokens(vocab)) {
  const gguf::Array* merges = header.get_array(kMergesKey);
  if (!merges)
    throw_error(ErrorKind::kModel, "{} is missing: a BPE vocabulary cannot be used without its merges", kMergesKey);
  if (merges->element_type != gguf::ValueType::String) {
    throw_error(ErrorKind::kModel, "{}: elements are {}, expected {}", kMergesKey,
                gguf::value_type_name(merges->element_type), gguf::value_type_name(gguf::ValueType::String));
  }
  const size_t n = merges->strings.size();
  if (n >= MergeQueue::kNoMerge) throw_error(ErrorKind::kModel, "{}: {} entries are too many", kMergesKey, n);
  size_t n_slots = 16;
  while (n_slots < n + n / 2) n_slots *= 2;
  slots_.assign(n_slots, Slot{0, 0, 0});
  merged_.reserve(n);
  TokenId guess = 0;
  for (size_t i = 0; i < n; ++i) {
    const std::string_view merge = merges->strings[i];
    const size_t blank = merge.find(' ', 1);
    if (blank == std::string_view::npos || blank + 1 == merge.size())
      bad_merge(i, merge, "expected two tokens with a space between");
    const std::string_view left_text = merge.substr(0, blank), right_text = merge.substr(blank + 1);
    const TokenId left = vocab.find(left_text), right = vocab.find(right_text);
    if (left == kNoToken || right == kNoToken) bad_merge(i, merge, "it names a token that is not in the vocabulary");
    // Vocabularies are mostly in the order of their merges: the next entry is the likely result, and is at hand.
    if (size_t(guess) >= vocab.size() || !is_concatenation(vocab.text(guess), left_text, right_text)) {
      guess = vocab.find(std::string(left_text).append(right_text));
      if (guess == kNoToken) bad_merge(i, merge, "what it makes is not in the vocabulary");
    }
    merged_.push_back(guess);
    add_merge(i, left, right);
    ++guess;
  }
}

size_t MergeListModel::slot_of(TokenId left, TokenId right) const {
  const uint64_t key = (uint64_t(uint32_t(left)) << 32 | uint32_t(right)) * 0x9e3779b97f4a7c15ull;
  return size_t((key ^ key >> 29) * 0xbf58476d1ce4e5b9ull >> 32) & (slots_.size() - 1);
}

void MergeListModel::add_merge(size_t rank, TokenId left, TokenId right) {
  size_t slot = slot_of(left, right);
  for (size_t probes = 0; slots_[slot].rank_plus_1 != 0; slot = (slot + 1) & (slots_.size() - 1), ++probes) {
    if (slots_[slot].left == left && slots_[slot].right == right) return;  // the first of two equal merges counts
    if (probes > kMaxProbes)
      throw_error(ErrorKind::kModel, "{}: made to collide in the hash table (entry {})", kMergesKey, rank);
  }
  slots_[slot] = {left, right, uint32_t(rank + 1)};
}

uint32_t MergeListModel::rank(TokenId left, TokenId right) const {
  for (size_t slot = slot_of(left, right); slots_[slot].rank_plus_1 != 0; slot = (slot + 1) & (slots_.size() - 1)) {
    if (slots_[slot].left == left && slots_[slot].right == right) return slots_[slot].rank_plus_1 - 1;
  }
  return MergeQueue::kNoMerge;
}

size_t MergeListModel::n_missing_bytes(std::string_view text) const {
  const auto n_missing = [&](std::string_view bytes) {
    return size_t(std::count_if(bytes.begin(), bytes.end(), [&](char c) { return bytes_[uint8_t(c)] == kNoToken; }));
  };
  if (byte_level_) return n_missing(text);
  size_t n = 0;
  for (size_t at = 0; at < text.size();) {
    const std::string_view character = text.substr(at, utf8_decode(text, at).n_bytes);
    if (character != " " && vocab_.find(character) == kNoToken) n += n_missing(character);
    at += character.size();
  }
  return n;
}

TokenId MergeListModel::whole_word(std::string_view word, std::string& stand_ins) const {
  if (!byte_level_) return vocab_.find(word);
  if (word.size() > vocab_.longest()) return kNoToken;
  stand_ins.clear();
  for (const char c : word) utf8_append(stand_ins, byte_to_stand_in(uint8_t(c)));
  return vocab_.find(stand_ins);
}

void MergeListModel::first_symbols(std::string_view word, Scratch& scratch) const {
  auto& ids = scratch.ids;
  ids.resize(word.size());
  if (byte_level_) {
    std::transform(word.begin(), word.end(), ids.begin(), [&](char c) { return bytes_[uint8_t(c)]; });
    return;
  }
  scratch.begins.resize(word.size());
  size_t n = 0;
  for (size_t at = 0; at < word.size(); ++n) {
    const size_t n_bytes = utf8_decode(word, at).n_bytes;
    ids[n] = vocab_.find(word.substr(at, n_bytes));
    scratch.begins[n] = uint32_t(at);
    at += n_bytes;
  }
  ids.resize(n);
}

void MergeListModel::encode_word(std::string_view word, bool whole, Scratch& scratch, std::vector<TokenId>& out) const {
  if (word.empty()) return;
  if (whole) {
    const TokenId id = whole_word(word, scratch.stand_ins);
    if (id != kNoToken) return out.push_back(id);
  }
  first_symbols(word, scratch);
  auto& ids = scratch.ids;
  scratch.queue.run(
      uint32_t(ids.size()), [&](uint32_t left, uint32_t right) { return rank(ids[left], ids[right]); },
      [&](uint32_t left, uint32_t, uint32_t rank) { ids[left] = merged_[rank]; });
  for (uint32_t i = 0; i != MergeQueue::kEnd; i = scratch.queue.next(i)) {
    if (ids[i] != kNoToken) out.push_back(ids[i]);
    if (ids[i] != kNoToken || byte_level_) continue;
    const size_t begin = scratch.begins[i];
    for (const char c : word.substr(begin, utf8_decode(word, begin).n_bytes)) {
      if (bytes_[uint8_t(c)] != kNoToken) out.push_back(bytes_[uint8_t(c)]);
    }
  }
}

}  // namespace quern::text
