// The character map and the spaces.
#include "text/unigram_normalizer.h"

#include <cstring>

#include "base/check.h"
#include "base/utf8.h"

namespace quern::text {

namespace {

constexpr std::string_view kMapKey = "tokenizer.ggml.precompiled_charsmap";
constexpr std::string_view kSpace = "\xe2\x96\x81";  // U+2581

/// Inputs of real maps are a few characters long; the bound keeps a map that runs in circles from making the time
/// quadratic.
constexpr size_t kMaxMappedBytes = 256;

// A unit of the double array, as Darts packs it: the label of the edge that leads here in the low byte (bit 31 is set
// in units that hold a value), bit 8: a value hangs below, and the offset to the children, in steps of 256 when bit 9
// is set.
uint32_t label(uint32_t unit) {
  return unit & 0x800000ffu;
}
bool has_value(uint32_t unit) {
  return unit >> 8 & 1;
}
uint32_t offset(uint32_t unit) {
  return unit >> 10 << (unit >> 9 & 1) * 8;
}
uint32_t value(uint32_t unit) {
  return unit & 0x7fffffffu;
}

}  // namespace

UnigramNormalizer::UnigramNormalizer(const gguf::Header& header)
    : add_space_prefix_(header.get_bool("tokenizer.ggml.add_space_prefix").value_or(false)),
      merge_spaces_(header.get_bool("tokenizer.ggml.remove_extra_whitespaces").value_or(false)) {
  const gguf::Array* map = header.get_array(kMapKey);
  if (!map || map->size == 0) return;
  if (map->element_type != gguf::ValueType::U8 && map->element_type != gguf::ValueType::I8) {
    throw_error(ErrorKind::kModel, "{}: elements are {}, expected {}", kMapKey,
                gguf::value_type_name(map->element_type), gguf::value_type_name(gguf::ValueType::U8));
  }
  uint32_t n_bytes = 0;
  if (map->size > sizeof(n_bytes)) std::memcpy(&n_bytes, map->bytes.data(), sizeof(n_bytes));
  if (n_bytes == 0 || n_bytes % 4 != 0 || n_bytes + sizeof(n_bytes) >= map->size) {
    throw_error(ErrorKind::kModel,
                "{}: {} bytes with a table of {} bytes, expected a multiple of 4 that leaves room for the replacements",
                kMapKey, map->size, n_bytes);
  }
  units_ = map->bytes.subspan(sizeof(n_bytes), n_bytes);
  const auto rest = map->bytes.subspan(sizeof(n_bytes) + n_bytes);
  replacements_ = {reinterpret_cast<const char*>(rest.data()), rest.size()};
  if (replacements_.back() != '\0')
    throw_error(ErrorKind::kModel, "{}: the last replacement does not end with a zero byte", kMapKey);
}

uint32_t UnigramNormalizer::unit(size_t index) const {
  const size_t n = units_.size() / sizeof(uint32_t);
  if (index >= n) throw_error(ErrorKind::kModel, "{}: the table leads to entry {}, but it has {}", kMapKey, index, n);
  uint32_t bits;
  std::memcpy(&bits, units_.data() + index * sizeof(bits), sizeof(bits));
  return bits;
}

UnigramNormalizer::Replacement UnigramNormalizer::replacement(std::string_view text) const {
  Replacement best;
  if (units_.empty()) return best;
  size_t at = offset(unit(0));
  const size_t n = std::min(text.size(), kMaxMappedBytes);
  for (size_t i = 0; i < n && text[i] != '\0'; ++i) {
    at ^= uint8_t(text[i]);
    const uint32_t here = unit(at);
    if (label(here) != uint8_t(text[i])) break;
    at ^= offset(here);
    if (!has_value(here)) continue;
    const uint32_t begin = value(unit(at));
    if (begin >= replacements_.size()) {
      throw_error(ErrorKind::kModel, "{}: a replacement begins at byte {}, but there are {}", kMapKey, begin,
                  replacements_.size());
    }
    best = {replacements_.substr(begin, replacements_.find('\0', begin) - begin), i + 1};
  }
  return best;
}

void UnigramNormalizer::normalize(std::string_view text, bool continues, std::string& out) const {
  bool in_word = false, first_word = true;
  bool glued = continues;  // no space seen yet: a word that begins now goes on from the text before
  for (size_t at = 0; at < text.size();) {
    Replacement seen = replacement(text.substr(at));
    if (seen.n_bytes == 0) {
      const Utf8Char c = utf8_decode(text, at);
      seen = {c.valid ? text.substr(at, c.n_bytes) : std::string_view("\xef\xbf\xbd"), c.n_bytes};
    }
    at += seen.n_bytes;
    for (const char c : seen.text) {
      if (c == ' ') {
        in_word = glued = false;
        if (!merge_spaces_) out += kSpace;
        continue;
      }
      // Where spaces are merged, each word brings its own; otherwise the first word alone gets one.
      if (!in_word && (merge_spaces_ ? !glued : add_space_prefix_ && first_word && !continues)) out += kSpace;
      in_word = true;
      first_word = false;
      out += c;
    }
  }
}

}  // namespace quern::text
