// What a unigram vocabulary does to text before it looks for tokens: the precompiled character map of the file (NFKC
// and the like, as SentencePiece stores it), then the rule for spaces, which become U+2581.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "gguf/gguf.h"

namespace quern::text {

class UnigramNormalizer {
 public:
  /// Reads tokenizer.ggml.precompiled_charsmap, .add_space_prefix and .remove_extra_whitespaces (false where absent);
  /// the header's bytes must outlive this.
  /// @throws Error(kModel) when the map's type or its lengths are wrong.
  explicit UnigramNormalizer(const gguf::Header& header);

  /// Appends `text` as the model sees it. `continues`: it goes on behind other text and gets no space of its own in
  /// front. Bytes that are not UTF-8 become U+FFFD.
  /// @throws Error(kModel) when the map points outside itself.
  void normalize(std::string_view text, bool continues, std::string& out) const;

  bool add_space_prefix() const { return add_space_prefix_; }

 private:
  struct Replacement {
    std::string_view text;
    size_t n_bytes = 0;  ///< of the input that it stands for; 0: there is none
  };
  Replacement replacement(std::string_view text) const;
  uint32_t unit(size_t index) const;

  /// The map: a double-array trie (Darts; the units are little-endian) from byte strings to offsets of zero-terminated
  /// texts.
  std::span<const std::byte> units_;
  std::string_view replacements_;
  bool add_space_prefix_ = false, merge_spaces_ = false;
};

}  // namespace quern::text
