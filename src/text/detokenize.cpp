// Pieces and the clean-up of white space.
#include "text/detokenize.h"

#include "base/utf8.h"

namespace quern::text {

namespace {

std::string with_spaces(std::string_view text) {
  constexpr std::string_view kSpace = "\xe2\x96\x81";
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const bool space = text.substr(at, kSpace.size()) == kSpace;
    out += space ? ' ' : text[at];
    at += space ? kSpace.size() : 1;
  }
  return out;
}

/// Stand-in characters become their bytes; any other character (an added token, say) stays as it is.
std::string from_stand_ins(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = utf8_decode(text, at);
    const int byte = c.valid ? stand_in_to_byte(c.code_point) : -1;
    if (byte >= 0)
      out += char(byte);
    else
      out += text.substr(at, c.n_bytes);
    at += c.n_bytes;
  }
  return out;
}

}  // namespace

std::string token_piece(const Vocab& vocab, TokenId id, bool special) {
  const uint16_t attributes = vocab.attributes(id);
  const bool hidden = (attributes & (kAttrUnknown | kAttrControl)) && !(attributes & kAttrShown);
  if (hidden && !special) return {};
  const std::string_view text = vocab.text(id);
  if (attributes & (kAttrUnknown | kAttrControl | kAttrUserDefined)) return std::string(text);
  if (attributes & kAttrNormal) return vocab.kind() == VocabKind::kByteLevel ? from_stand_ins(text) : with_spaces(text);
  if (attributes & kAttrByte) {
    const int byte = parse_byte_text(text);
    return byte < 0 ? std::string(text) : std::string(1, char(byte));
  }
  return {};  // unused and undefined entries
}

void clean_spaces(std::string& text) {
  // Three passes, one after another, because each sees what the one before it left.
  const auto rewrite = [&](auto&& drops_space_before, bool drops_space_after) {
    std::string out;
    out.reserve(text.size());
    for (size_t i = 0; i < text.size(); ++i) {
      const bool after_space = i > 0 && text[i - 1] == ' ';
      const bool drop = after_space && drops_space_before(i);
      if (drop) out.pop_back();
      out += text[i];
      if (drop && drops_space_after) text[++i] = '\0';  // gone, and no space for the next character either
    }
    text.swap(out);
  };
  const auto at = [&](size_t i) { return i < text.size() ? text[i] : '\0'; };
  rewrite([&](size_t i) { return at(i) == '?' || at(i) == '!' || at(i) == '.' || at(i) == ','; }, false);
  rewrite([&](size_t i) { return at(i) == '\'' && at(i + 1) == ' '; }, true);
  rewrite(
      [&](size_t i) {
        if (at(i) != '\'') return false;
        const char next = at(i + 1);
        return next == 's' || next == 'm' || ((next == 'r' || next == 'v') && at(i + 2) == 'e');
      },
      false);
}

}  // namespace quern::text
