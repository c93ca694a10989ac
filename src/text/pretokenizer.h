// How vocabularies with merge lists cut text into words before merging: one table from the name in tokenizer.ggml.pre to
// patterns and flags, and the splitter that runs them. Input must be valid UTF-8. Knows nothing of vocabularies.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quern::text {

/// One row of the table. The patterns run one after another, each on the pieces that those before it left; what a
/// pattern does not match stays a piece of its own.
struct PreTokenizerSpec {
  std::string_view name;                       ///< as in tokenizer.ggml.pre
  std::span<const std::string_view> patterns;  ///< PCRE2 syntax
  bool clean_spaces = false;                   ///< decoding drops the space before . , ? ! and some apostrophes
  bool whole_words = false;                    ///< a word that is an entry of the vocabulary is taken without merging
  bool add_bos = false;                        ///< BOS is wanted unless the file says otherwise
  bool characters = false;                     ///< merging begins at characters, with spaces as U+2581, not at bytes
  bool whole_newlines = false;                 ///< a word of line feeds alone is taken as whole_words says
};

/// The row of that name, or nullptr.
const PreTokenizerSpec* find_pre_tokenizer(std::string_view name);

/// All names, for messages: "bloom, chatglm-bpe, …".
std::string pre_tokenizer_names();

class PreTokenizer {
 public:
  explicit PreTokenizer(const PreTokenizerSpec& spec);
  PreTokenizer(PreTokenizer&&) noexcept;
  ~PreTokenizer();

  /// Fills `ends` with the end offset of each word of `text`, in order; the last is text.size().
  /// `text` must be valid UTF-8 of less than 4 GiB.
  void split(std::string_view text, std::vector<uint32_t>& ends) const;

 private:
  struct Compiled;
  std::vector<Compiled> stages_;
};

}  // namespace quern::text
