// Folding, cutting, and the longest entries.
#include "text/wordpiece.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/check.h"
#include "base/utf8.h"
#include "text/unicode_fold.h"

namespace quern::text {

namespace {

constexpr std::string_view kWordBegin = "\xe2\x96\x81";  // U+2581

// Contents of character classes. White space first: some of it counts as control as well.
#define QUERN_SPACE R"(\x09-\x0d\x20\x85\xa0\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})"
#define QUERN_CONTROL R"(\x{0}-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\p{Cf}\p{Co}\x{fffd})"
// Punctuation, the ASCII symbols, and Han characters by the blocks of BERT's tokenizer (U+2B920 is how the Rust one has
// it).
#define QUERN_ALONE                                                                                              \
  R"(\p{P}$+<=>^`|~\x{4e00}-\x{9fff}\x{3400}-\x{4dbf}\x{20000}-\x{2a6df}\x{2a700}-\x{2b73f}\x{2b740}-\x{2b81f})" \
  R"(\x{2b920}-\x{2ceaf}\x{f900}-\x{faff}\x{2f800}-\x{2fa1f})"

/// Which group of the pattern a piece of text belongs to.
enum Group : uint32_t { kSpace = 1, kDropped = 2, kAlone = 3, kInWord = 4 };

#define QUERN_PIECES(dropped) \
  "([" QUERN_SPACE "]+)|([" dropped "]+)|([" QUERN_ALONE "])|([^" QUERN_SPACE dropped QUERN_ALONE "]+)"
constexpr std::string_view kPieces = QUERN_PIECES(QUERN_CONTROL),
                           kPiecesWithoutMarks = QUERN_PIECES(QUERN_CONTROL R"(\p{M})");

}  // namespace

struct WordPieceModel::Splitter {
  struct Free {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
    void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
  };
  std::unique_ptr<pcre2_code, Free> code;

  explicit Splitter(std::string_view pattern) {
    int error = 0;
    PCRE2_SIZE offset = 0;
    code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_UTF | PCRE2_UCP,
                             &error, &offset, nullptr));
    QUERN_CHECK(code != nullptr, "the word pattern, offset {}: error {}", offset, error);
    (void)pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);  // where the system forbids it, matching is interpreted
  }

  /// Calls found(group, piece) for the pieces of `text`, which together are all of it.
  template <typename Found>
  void split(std::string_view text, Found&& found) const {
    const std::unique_ptr<pcre2_match_data, Free> match(pcre2_match_data_create_from_pattern(code.get(), nullptr));
    if (!match) throw std::bad_alloc();
    for (size_t at = 0; at < text.size();) {
      const int n_groups = pcre2_match(code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                                       PCRE2_NO_UTF_CHECK, match.get(), nullptr);
      if (n_groups <= 1)
        throw_error(ErrorKind::kRuntime, "splitting text into words failed at byte {}: error {}", at, n_groups);
      const size_t end = pcre2_get_ovector_pointer(match.get())[1];
      QUERN_CHECK(end > at, "the word pattern matched nothing at {}", at);
      found(Group(n_groups - 1), text.substr(at, end - at));
      at = end;
    }
  }
};

WordPieceModel::WordPieceModel(WordPieceModel&&) noexcept = default;
WordPieceModel::~WordPieceModel() = default;

WordPieceModel::WordPieceModel(const Vocab& vocab, const gguf::Header& header, TokenId unknown)
    : unknown_(unknown), lowercase_(header.get_bool("tokenizer.ggml.normalizer.lowercase").value_or(true)) {
  strip_accents_ = header.get_bool("tokenizer.ggml.normalizer.strip_accents").value_or(lowercase_);
  std::vector<TokenId> ids;
  for (size_t i = 0; i < vocab.size(); ++i) {
    if (!vocab.text(TokenId(i)).empty()) ids.push_back(TokenId(i));
  }
  trie_ = TokenTrie(vocab, std::move(ids));
  splitter_ = std::make_unique<Splitter>(strip_accents_ ? kPiecesWithoutMarks : kPieces);
}

std::string WordPieceModel::folded(std::string_view text) const {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = utf8_decode(text, at);
    const uint32_t base = strip_accents_ ? unicode_base(c.code_point) : c.code_point;
    utf8_append(out, lowercase_ ? unicode_lower(base) : base);
    at += c.n_bytes;
  }
  return out;
}

void WordPieceModel::encode(std::string_view text, std::vector<TokenId>& out) const {
  std::string word(kWordBegin);
  const auto finish_word = [&] {
    if (word.size() > kWordBegin.size()) encode_word(word, out);
    word = kWordBegin;
  };
  splitter_->split(folded(text), [&](Group group, std::string_view piece) {
    if (group == kSpace || group == kAlone) finish_word();
    if (group == kAlone || group == kInWord) word += piece;
    if (group == kAlone) finish_word();
  });
  finish_word();
}

void WordPieceModel::encode_word(std::string_view word, std::vector<TokenId>& out) const {
  const size_t n_before = out.size();
  for (size_t at = 0; at < word.size();) {
    size_t longest = 0;
    TokenId token = kNoToken;
    trie_.prefixes(word.substr(at), [&](size_t n_bytes, TokenId id) { longest = n_bytes, token = id; });
    if (longest == 0) {
      out.resize(n_before);
      if (unknown_ != kNoToken) out.push_back(unknown_);
      return;
    }
    out.push_back(token);
    at += longest;
  }
}

}  // namespace quern::text
