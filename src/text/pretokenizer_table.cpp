// The table of pre-tokenizers. Patterns are those of the models' own tokenizer.json; white space is written out,
// because PCRE2's \s also counts U+180E, and alternatives that would try a long run again and again are written so that
// they cannot.
#include <algorithm>
#include <array>

#include "text/pretokenizer.h"

namespace quern::text {

namespace {

using Pattern = std::string_view;

// Insides of character classes: white space (Unicode's White_Space), the same without CR and LF.
#define QUERN_WS R"(\x09-\x0d\x85\p{Z})"
#define QUERN_BLANK R"(\x09\x0b\x0c\x85\p{Z})"

// English contractions, in lower case only and in any case.
#define QUERN_CONTRACTION_LOWER R"('(?:[stmd]|re|ve|ll))"
#define QUERN_CONTRACTION R"('(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL]))"

// "\s*[\r\n]+" without trying every length of a run of blanks that ends without a line break.
#define QUERN_LINES "(?:[" QUERN_BLANK R"(]*+[\r\n]++)++)"
// "\s+(?!\S)|\s+": a run of white space without its last character, where a word follows.
#define QUERN_SPACES "[" QUERN_WS "]+(?![^" QUERN_WS "])|[" QUERN_WS "]+"

// A word of letters (`letters` is the inside of a class) with whatever single character stands in front of it.
#define QUERN_WORD(letters) R"([^\r\n\p{L}\p{N}]?[)" letters "]+"
#define QUERN_SYMBOLS(tail) " ?[^" QUERN_WS R"(\p{L}\p{N}]+[)" tail "]*"

constexpr Pattern kDigit = R"(\p{N})";
constexpr Pattern kThreeDigits = "[0-9][0-9][0-9]";
constexpr Pattern kGpt2Words =
    QUERN_CONTRACTION_LOWER R"(| ?\p{L}+| ?\p{N}+| ?[^)" QUERN_WS R"(\p{L}\p{N}]+|)" QUERN_SPACES;

constexpr std::array kGpt2 = {kGpt2Words};
constexpr std::array kSmollm = {kDigit, kGpt2Words};
constexpr std::array kFalcon = {Pattern(R"([\p{P}$+<=>^~|`]+)"), kGpt2Words, kThreeDigits};
constexpr std::array kDefault = {Pattern(R"([\p{P}$+<=>^~|]+)"), kGpt2Words, Pattern(R"(\p{N}+)"), kThreeDigits};

#define QUERN_LLAMA3(digits, spaces) \
  QUERN_CONTRACTION "|" QUERN_WORD(R"(\p{L})") "|" digits "|" QUERN_SYMBOLS(R"(\r\n)") "|" QUERN_LINES "|" spaces
constexpr std::array kLlama3 = {Pattern(QUERN_LLAMA3(R"(\p{N}{1,3})", QUERN_SPACES))};
constexpr std::array kQwen2 = {Pattern(QUERN_LLAMA3(R"(\p{N})", QUERN_SPACES))};
constexpr std::array kMiniCpm5 = {Pattern(R"(\p{N}{1,3})"), Pattern(QUERN_LLAMA3(R"(\p{N}+)", QUERN_SPACES))};
constexpr std::array kLaguna = {Pattern(R"([^\n]+|\n+)"), kQwen2[0]};

// Combining marks belong to the word.
constexpr std::array kQwen35 = {Pattern(QUERN_CONTRACTION "|" QUERN_WORD(
    R"(\p{L}\p{M})") R"(|\p{N}| ?[^)" QUERN_WS R"(\p{L}\p{M}\p{N}]+[\r\n]*|)" QUERN_LINES "|" QUERN_SPACES)};
constexpr std::array kUfakzeka = {
    Pattern(QUERN_WORD(R"(\p{L})") R"(|\p{N}|)" QUERN_SYMBOLS(R"(\r\n)") "|" QUERN_LINES "|" QUERN_SPACES)};
constexpr std::array kSeedCoder = {Pattern(QUERN_CONTRACTION "|" QUERN_WORD(
    R"(\p{L})") R"(|\p{N}| ?[^)" QUERN_WS R"(\p{L}\p{N}\r\n]+|)" QUERN_LINES "|" QUERN_SPACES)};
// Words that change from upper to lower case inside are cut there; the classes overlap in the letters without case.
#define QUERN_UPPER R"(\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M})"
#define QUERN_LOWER R"(\p{Ll}\p{Lm}\p{Lo}\p{M})"
#define QUERN_CASED_WORDS(tail)                                                                          \
  R"([^\r\n\p{L}\p{N}]?[)" QUERN_UPPER "]*[" QUERN_LOWER "]+" tail R"(|[^\r\n\p{L}\p{N}]?[)" QUERN_UPPER \
  "]+[" QUERN_LOWER "]*" tail
constexpr std::array kTekken = {
    Pattern(QUERN_CASED_WORDS("") R"(|\p{N}|)" QUERN_SYMBOLS(R"(\r\n/)") "|" QUERN_LINES "|" QUERN_SPACES)};
constexpr std::array kGpt4o = {Pattern(QUERN_CASED_WORDS("(?:" QUERN_CONTRACTION ")?") R"(|\p{N}{1,3}|)" QUERN_SYMBOLS(
    R"(\r\n/)") "|" QUERN_LINES "|" QUERN_SPACES)};

constexpr std::array kDeepseekV3 = {
    Pattern(R"(\p{N}{1,3})"), Pattern(R"([\x{4e00}-\x{9fa5}\x{3040}-\x{309f}\x{30a0}-\x{30ff}]+)"),
    Pattern(R"([!-/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|)" QUERN_LINES
            "|" QUERN_SPACES)};
constexpr std::array kDeepseekCoder = {Pattern(R"([\r\n])"), Pattern("[" QUERN_WS R"(]?\p{L}+)"),
                                       Pattern("[" QUERN_WS R"(]?\p{P}+)"),
                                       Pattern(R"([\x{4e00}-\x{9fa5}\x{0800}-\x{4e00}\x{ac00}-\x{d7ff}]+)"), kDigit};

constexpr Pattern kBloomWords = " ?[^(" QUERN_WS R"(|.,!?…。，、।۔،)]+)";
constexpr std::array kBloom = {kBloomWords};
constexpr std::array kViking = {kBloomWords, kDigit};

constexpr bool kClean = true, kWhole = true, kBos = true;

// Sorted by name.
constexpr PreTokenizerSpec kTable[] = {
    {"a.x-4.0", kGpt2, kClean},
    {"bailingmoe", kQwen2},
    {"bailingmoe2", kQwen2},
    {"bloom", kBloom, kClean},
    {"chatglm-bpe", kLlama3, kClean},
    {"codeshell", kSmollm, kClean},
    {"command-r", kSmollm},
    {"dbrx", kLlama3, kClean},
    {"deepseek-coder", kDeepseekCoder},
    {"deepseek-r1-qwen", kQwen2},
    {"deepseek-v3", kDeepseekV3},
    {"default", kDefault, kClean},
    {"exaone", kSmollm, kClean},
    {"exaone4", kGpt2, kClean},
    {"f2llmv2", kQwen2},
    {"falcon", kFalcon, kClean},
    {"falcon-h1", kLlama3, kClean, kWhole, kBos},
    {"falcon3", kLlama3, kClean, kWhole, kBos},
    {"gigachat", kGpt2, kClean},
    {"glm4", kLlama3, kClean},
    {"gpt-2", kGpt2, kClean},
    {"gpt-4o", kGpt4o},
    {"gpt3-finnish", kBloom, kClean},
    {"granite-docling", kGpt2},
    {"grok-2", kQwen2},
    {"hunyuan", kQwen2},
    {"hunyuan-dense", kDeepseekV3},
    {"jais", kGpt2, kClean},
    {"joyai-llm", kDeepseekV3},
    {"kanana2", kGpt4o},
    {"kormo", kQwen2},
    {"laguna", kLaguna},
    {"lfm2", kLlama3, kClean, kWhole, kBos},
    {"llada-moe", kQwen2},
    {"llama-bpe", kLlama3, kClean, kWhole, kBos},
    {"llama-v3", kLlama3, kClean, kWhole, kBos},
    {"llama3", kLlama3, kClean, kWhole, kBos},
    {"llama4", kGpt4o},
    {"megrez", kQwen2, kClean},
    {"mellum", kGpt2, kClean},
    {"mellum2", kSmollm, kClean},
    {"midm-2.0", kLlama3, kClean, kWhole, kBos},
    {"minerva-7b", kSmollm, kClean},
    {"minicpm5", kMiniCpm5, kClean, kWhole},
    {"minimax-m2", kGpt4o},
    {"mpt", kGpt2, kClean},
    {"olmo", kGpt2, kClean},
    {"phi-2", kGpt2, kClean},
    {"pixtral", kLlama3, kClean, kWhole, kBos},
    {"poro-chat", kBloom},
    {"qwen2", kQwen2},
    {"qwen35", kQwen35},
    {"refact", kSmollm, kClean},
    {"seed-coder", kSeedCoder},
    {"smaug-bpe", kLlama3, kClean},
    {"smollm", kSmollm},
    {"solar-open", kQwen2},
    {"stablelm2", kQwen2, kClean},
    {"starcoder", kSmollm, kClean},
    {"talkie", kGpt4o},
    {"tekken", kTekken, false, kWhole, kBos},
    {"trillion", kGpt2},
    {"ufakzeka", kUfakzeka},
    {"viking", kViking},
};

}  // namespace

const PreTokenizerSpec* find_pre_tokenizer(std::string_view name) {
  const auto row = std::find_if(std::begin(kTable), std::end(kTable), [&](const auto& r) { return r.name == name; });
  return row == std::end(kTable) ? nullptr : row;
}

std::string pre_tokenizer_names() {
  std::string names;
  for (const PreTokenizerSpec& row : kTable) {
    if (!names.empty()) names += ", ";
    names += row.name;
  }
  return names;
}

}  // namespace quern::text
