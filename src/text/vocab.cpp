// Reading and indexing the vocabulary arrays.
#include "text/vocab.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/utf8.h"

namespace quern::text {

namespace {

constexpr std::string_view kTokensKey = "tokenizer.ggml.tokens";
constexpr std::string_view kScoresKey = "tokenizer.ggml.scores";
constexpr std::string_view kTypesKey = "tokenizer.ggml.token_type";

/// A file may choose its entries so that they all collide. Honest vocabularies stay below 40 steps.
constexpr size_t kMaxProbes = 2048;

uint64_t fold_multiply(uint64_t a, uint64_t b) {
  const __uint128_t product = __uint128_t(a) * b;
  return uint64_t(product) ^ uint64_t(product >> 64);
}

uint64_t load64(const char* p) {
  uint64_t word;
  std::memcpy(&word, p, sizeof(word));
  return word;
}

uint64_t hash_text(std::string_view text) {
  constexpr uint64_t kMultiplier = 0x9e3779b97f4a7c15ull;
  const char* p = text.data();
  size_t n = text.size();
  uint64_t hash = n * kMultiplier;
  for (; n > 8; p += 8, n -= 8) hash = fold_multiply(hash ^ load64(p), kMultiplier);
  uint64_t tail = 0;
  if (n >= 4) {  // two overlapping halves: no loop over single bytes
    uint32_t first, last;
    std::memcpy(&first, p, 4);
    std::memcpy(&last, p + n - 4, 4);
    tail = uint64_t(first) << 32 | last;
  } else if (n > 0) {
    tail = uint64_t(uint8_t(p[0])) | uint64_t(uint8_t(p[n / 2])) << 8 | uint64_t(uint8_t(p[n - 1])) << 16;
  }
  return fold_multiply(hash ^ tail, 0xd6e8feb86659fd93ull);
}

size_t table_size(size_t n_entries) {
  size_t n = 16;
  while (n < n_entries * 2) n *= 2;
  return n;
}

uint16_t attribute_of(int64_t type) {
  switch (TokenKind(type)) {
    case TokenKind::kNormal:
      return kAttrNormal;
    case TokenKind::kUnknown:
      return kAttrUnknown;
    case TokenKind::kControl:
      return kAttrControl;
    case TokenKind::kUserDefined:
      return kAttrUserDefined;
    case TokenKind::kUnused:
      return kAttrUnused;
    case TokenKind::kByte:
      return kAttrByte;
    case TokenKind::kUndefined:
      break;
  }
  return 0;
}

}  // namespace

Vocab::Vocab(const gguf::Header& header, VocabKind kind) : kind_(kind) {
  const gguf::Array* tokens = header.get_array(kTokensKey);
  if (!tokens) throw_error(ErrorKind::kModel, "{} is missing: the file has no vocabulary", kTokensKey);
  if (tokens->element_type != gguf::ValueType::String) {
    throw_error(ErrorKind::kModel, "{}: elements are {}, expected {}", kTokensKey,
                gguf::value_type_name(tokens->element_type), gguf::value_type_name(gguf::ValueType::String));
  }
  if (tokens->size == 0 || tokens->size > uint64_t(INT32_MAX)) {
    throw_error(ErrorKind::kModel, "{}: {} entries, expected 1 to {}", kTokensKey, tokens->size, INT32_MAX);
  }
  texts_ = tokens->strings;
  read_types(header);
  read_scores(header);
  index_texts();
}

void Vocab::read_types(const gguf::Header& header) {
  attributes_.assign(size(), kAttrNormal);
  const gguf::Array* types = header.get_array(kTypesKey);
  if (!types) return;
  if (types->element_type != gguf::ValueType::I32 && types->element_type != gguf::ValueType::U32) {
    throw_error(ErrorKind::kModel, "{}: elements are {}, expected {}", kTypesKey,
                gguf::value_type_name(types->element_type), gguf::value_type_name(gguf::ValueType::I32));
  }
  if (types->size != size()) {
    throw_error(ErrorKind::kModel, "{}: {} entries, but {} has {}", kTypesKey, types->size, kTokensKey, size());
  }
  for (size_t i = 0; i < size(); ++i) {
    int32_t type;
    std::memcpy(&type, types->bytes.data() + i * sizeof(type), sizeof(type));
    if (type < 0 || type > int32_t(TokenKind::kByte)) {
      throw_error(ErrorKind::kModel, "{}: entry {} is {}, expected 0 to {}", kTypesKey, i, type, int(TokenKind::kByte));
    }
    attributes_[i] = attribute_of(type);
  }
}

void Vocab::read_scores(const gguf::Header& header) {
  const gguf::Array* scores = header.get_array(kScoresKey);
  if (!scores) {
    if (kind_ != VocabKind::kSentencePiece && kind_ != VocabKind::kUnigram) return;
    throw_error(ErrorKind::kModel, "{} is missing: a SentencePiece vocabulary cannot be used without its scores",
                kScoresKey);
  }
  if (scores->element_type != gguf::ValueType::F32) {
    throw_error(ErrorKind::kModel, "{}: elements are {}, expected {}", kScoresKey,
                gguf::value_type_name(scores->element_type), gguf::value_type_name(gguf::ValueType::F32));
  }
  if (scores->size != size()) {
    throw_error(ErrorKind::kModel, "{}: {} entries, but {} has {}", kScoresKey, scores->size, kTokensKey, size());
  }
  scores_ = scores->bytes;
  for (size_t i = 0; i < size(); ++i) {
    if (std::isnan(score(TokenId(i)))) throw_error(ErrorKind::kModel, "{}: entry {} is not a number", kScoresKey, i);
  }
}

float Vocab::score(TokenId id) const {
  if (scores_.empty()) return 0.0f;
  float value;
  std::memcpy(&value, scores_.data() + size_t(id) * sizeof(value), sizeof(value));
  return value;
}

void Vocab::index_texts() {
  slots_.assign(table_size(size()), 0);
  const size_t mask = slots_.size() - 1;
  for (size_t i = 0; i < size(); ++i) {
    const std::string_view entry = texts_[i];
    if (entry.empty()) continue;
    longest_ = std::max(longest_, entry.size());
    const uint64_t hash = hash_text(entry);
    size_t slot = hash & mask;
    for (size_t probes = 0; slots_[slot] != 0; slot = (slot + 1) & mask, ++probes) {
      if (slots_[slot] >> 32 == hash >> 32) {
        const size_t other = uint32_t(slots_[slot]) - 1;
        if (texts_[other] == entry) {
          throw_error(ErrorKind::kModel, "{}: entries {} and {} are both {}; each may occur once", kTokensKey, other, i,
                      gguf::quoted(entry));
        }
      }
      if (probes > kMaxProbes)
        throw_error(ErrorKind::kModel, "{}: made to collide in the hash table (entry {})", kTokensKey, i);
    }
    slots_[slot] = (hash >> 32 << 32) | uint64_t(i + 1);
  }
}

TokenId Vocab::find_in_table(std::string_view entry) const {
  if (entry.empty()) return kNoToken;
  const size_t mask = slots_.size() - 1;
  const uint64_t hash = hash_text(entry);
  for (size_t slot = hash & mask; slots_[slot] != 0; slot = (slot + 1) & mask) {
    if (slots_[slot] >> 32 != hash >> 32) continue;
    const uint32_t id = uint32_t(slots_[slot]) - 1;
    if (texts_[id] == entry) return TokenId(id);
  }
  return kNoToken;
}

uint32_t byte_to_stand_in(uint8_t byte) {
  static const auto table = [] {
    // Printable Latin-1 stands for itself; the other bytes, in ascending order, take the code points from U+0100 on.
    std::array<uint32_t, 256> map{};
    uint32_t next = 0x100;
    for (uint32_t b = 0; b < 256; ++b) {
      const bool printable = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
      map[b] = printable ? b : next++;
    }
    return map;
  }();
  return table[byte];
}

int stand_in_to_byte(uint32_t code_point) {
  static const auto table = [] {
    std::array<int16_t, 0x144> map{};
    map.fill(-1);
    for (int b = 0; b < 256; ++b) map[byte_to_stand_in(uint8_t(b))] = int16_t(b);
    return map;
  }();
  return code_point < table.size() ? table[code_point] : -1;
}

int parse_byte_text(std::string_view text) {
  const auto digit = [](char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1; };
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return -1;
  const int high = digit(text[3]), low = digit(text[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

std::vector<TokenId> byte_tokens(const Vocab& vocab) {
  std::vector<TokenId> ids(256, kNoToken);
  for (int b = 0; b < 256; ++b) {
    if (vocab.kind() == VocabKind::kByteLevel) {
      std::string stand_in;
      utf8_append(stand_in, byte_to_stand_in(uint8_t(b)));
      ids[size_t(b)] = vocab.find(stand_in);
    } else {
      ids[size_t(b)] = vocab.find(fmt::format("<0x{:02X}>", b));
      if (ids[size_t(b)] == kNoToken) ids[size_t(b)] = vocab.find(std::string(1, char(b)));
    }
  }
  return ids;
}

}  // namespace quern::text
