// Running the patterns with PCRE2 (its JIT where the system allows one).
#include "text/pretokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/check.h"

namespace quern::text {

namespace {

struct FreeCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct FreeMatch {
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
};

std::string message_of(int error) {
  PCRE2_UCHAR text[160];
  const int n = pcre2_get_error_message(error, text, sizeof(text));
  return n < 0 ? fmt::format("error {}", error) : std::string(reinterpret_cast<const char*>(text), size_t(n));
}

}  // namespace

struct PreTokenizer::Compiled {
  std::unique_ptr<pcre2_code, FreeCode> code;
};

PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;
PreTokenizer::~PreTokenizer() = default;

PreTokenizer::PreTokenizer(const PreTokenizerSpec& spec) {
  for (const std::string_view pattern : spec.patterns) {
    int error = 0;
    PCRE2_SIZE offset = 0;
    const uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_NO_AUTO_CAPTURE | PCRE2_DOLLAR_ENDONLY;
    Compiled stage{std::unique_ptr<pcre2_code, FreeCode>(pcre2_compile(
        reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), options, &error, &offset, nullptr))};
    QUERN_CHECK(stage.code != nullptr, "pre-tokenizer {}, offset {}: {}", spec.name, offset, message_of(error));
    // Without executable memory (hardened systems) this fails and matching is interpreted: slower, the same result.
    (void)pcre2_jit_compile(stage.code.get(), PCRE2_JIT_COMPLETE);
    stages_.push_back(std::move(stage));
  }
}

void PreTokenizer::split(std::string_view text, std::vector<uint32_t>& ends) const {
  QUERN_CHECK(text.size() < UINT32_MAX, "{} bytes", text.size());
  ends.assign(1, uint32_t(text.size()));
  if (text.empty()) return ends.clear();
  std::vector<uint32_t> pieces;
  for (const Compiled& stage : stages_) {
    std::unique_ptr<pcre2_match_data, FreeMatch> match(pcre2_match_data_create(1, nullptr));
    if (!match) throw std::bad_alloc();
    pieces.swap(ends);
    ends.clear();
    size_t begin = 0;
    for (const uint32_t end : pieces) {
      // Each piece is a subject of its own, so that look-around ends at its borders.
      const auto subject = reinterpret_cast<PCRE2_SPTR>(text.data() + begin);
      const size_t length = end - begin;
      for (size_t at = 0; at < length;) {
        const int result = pcre2_match(stage.code.get(), subject, length, at, PCRE2_NO_UTF_CHECK, match.get(), nullptr);
        if (result == PCRE2_ERROR_NOMATCH) break;
        if (result < 0) throw_error(ErrorKind::kRuntime, "splitting text into words failed: {}", message_of(result));
        const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match.get());
        QUERN_CHECK(range[1] > range[0], "a pre-tokenizer pattern matched nothing at {}", at);
        if (range[0] > at) ends.push_back(uint32_t(begin + range[0]));
        ends.push_back(uint32_t(begin + range[1]));
        at = range[1];
      }
      if (ends.empty() || ends.back() != end) ends.push_back(end);
      begin = end;
    }
  }
}

}  // namespace quern::text
