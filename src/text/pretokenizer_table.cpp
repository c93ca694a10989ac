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

constexpr std::array kSpark = {kDigit, kDeepseekV3[1],
                               Pattern(R"([!-/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]|)" QUERN_SPACES)};

// Digits in groups of three from the right. A run's first group is found by looking ahead once; those behind it follow, so that a long
// run costs no square.
#define QUERN_THREES(end) R"(\G(?<=\d)\d{3}|(?<!\d)\d{1,3}?(?=(?:\d{3})*+)" end ")"
constexpr std::array kSuperBpe = {Pattern(R"(\p{N}+)"), Pattern(QUERN_THREES(R"((?!\d))"))};
constexpr std::array kTinyAya = {Pattern(QUERN_THREES(R"(\b)")), kGpt4o[0]};
constexpr std::array kAfmoe = {
    Pattern(QUERN_THREES(R"((?!\d))")),
    Pattern(R"([\x{4e00}-\x{9fff}\x{3400}-\x{4dbf}\x{f900}-\x{faff}\x{3040}-\x{309f}\x{30a0}-\x{30ff}\x{ff65}-\x{ff9f}\x{2f00}-\x{2fdf}\x{0e40}-\x{0e7f}\x{0e80}-\x{0eff}\x{1780}-\x{17ff}\x{1000}-\x{109f}\x{aa60}-\x{aa7f}\x{a9e0}-\x{a9ff}\x{ac00}-\x{d7af}\x{1100}-\x{11ff}]+)"),
    kDeepseekV3[2]};

// Runs of Han characters stand alone; the classes of words, written by what is not in them, leave them out.
#define QUERN_UPPER_NO_HAN R"([^\p{Ll}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{Han}])"
#define QUERN_LOWER_NO_HAN R"([^\p{Lu}\p{Lt}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{Han}])"
constexpr std::array kKimiK2 = {Pattern(
    R"(\p{Han}+|[^\r\n\p{L}\p{N}]?)" QUERN_UPPER_NO_HAN "*" QUERN_LOWER_NO_HAN "+(?:" QUERN_CONTRACTION R"()?|[^\r\n\p{L}\p{N}]?)" QUERN_UPPER_NO_HAN
    "+" QUERN_LOWER_NO_HAN "*(?:" QUERN_CONTRACTION R"()?|\p{N}{1,3}|)" QUERN_SYMBOLS(R"(\r\n)") "|" QUERN_LINES "|" QUERN_SPACES)};
constexpr std::array kYoutu = {
    Pattern(R"([\x{ac00}-\x{d7a3}\x{3131}-\x{318e}]+|[！…“”‘’—：；，、-〿︰-﹏]+|[\x{3105}-\x{312f}]+|[\x{4e00}-\x{9fa5}\x{3040}-\x{309f}\x{30a0}-\x{30ff}]+)"),
    Pattern(QUERN_CASED_WORDS("(?:" QUERN_CONTRACTION ")?") R"(|\p{N}|)" QUERN_SYMBOLS(R"(\r\n/)") "|" QUERN_LINES "|" QUERN_SPACES)};
constexpr std::array kExaoneMoe = {Pattern(QUERN_CONTRACTION R"(|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*+(?: \p{L}\p{M}*+)*+)++|\p{N}| ?[^)" QUERN_WS
                                           R"(\p{L}\p{N}]+[\r\n/]?|)" QUERN_LINES "|" QUERN_SPACES)};
// White space in the powers of two that the vocabulary has entries for.
#define QUERN_RUN(n) "[" QUERN_WS "]{" n "}(?![^" QUERN_WS "])|"
constexpr std::array kJais2 = {Pattern(QUERN_LLAMA3(
    R"(\p{N}{1,3})", QUERN_RUN("512") QUERN_RUN("256") QUERN_RUN("128") QUERN_RUN("64") QUERN_RUN("32") QUERN_RUN("16") QUERN_RUN("8") QUERN_RUN("4") QUERN_RUN("1,2") "[" QUERN_WS "]"))};
constexpr std::array kChameleon = {Pattern("<sentinel:[0-9]+>"), Pattern("IMGIMG[A-I]{1,4}Z"), Pattern("[\\t\\n]|    |  "), kDigit,
                                   Pattern(R"([\p{P}!-/:-@\[-`{-~])"), kGpt2Words};
// Letters as the model's tokenizer lists them: the alphabets with two cases.
constexpr std::array kDeepseekLlm = {
    Pattern(R"([\r\n])"),
    Pattern("[" QUERN_WS R"(]?[)"
            R"(A-Za-z\x{b5}\x{c0}-\x{d6}\x{d8}-\x{f6}\x{f8}-\x{1ba}\x{1bc}-\x{1bf}\x{1c4}-\x{293}\x{295}-\x{2af}\x{370}-\x{373})"
            R"(\x{376}\x{377}\x{37b}-\x{37d}\x{37f}\x{386}\x{388}-\x{38a}\x{38c}\x{38e}-\x{3a1}\x{3a3}-\x{3f5}\x{3f7}-\x{481})"
            R"(\x{48a}-\x{52f}\x{531}-\x{556}\x{10a0}-\x{10c5}\x{13a0}-\x{13f5}\x{13f8}-\x{13fd}\x{1c90}-\x{1cba}\x{1cbd}-\x{1cbf})"
            R"(\x{1d00}-\x{1d2b}\x{1d6b}-\x{1d77}\x{1d79}-\x{1d9a}\x{1e00}-\x{1f15}\x{1f18}-\x{1f1d}\x{1f20}-\x{1f45})"
            R"(\x{1f48}-\x{1f4d}\x{1f50}-\x{1f57}\x{1f59}\x{1f5b}\x{1f5d}\x{1f5f}-\x{1f7d}\x{1f80}-\x{1fb4}\x{1fb6}-\x{1fbc}\x{1fbe})"
            R"(\x{1fc2}-\x{1fc4}\x{1fc6}-\x{1fcc}\x{1fd0}-\x{1fd3}\x{1fd6}-\x{1fdb}\x{1fe0}-\x{1fec}\x{1ff2}-\x{1ff4})"
            R"(\x{1ff6}-\x{1ffc}\x{2102}\x{2107}\x{210a}-\x{2113}\x{2115}\x{2119}-\x{211d}\x{2124}\x{2126}\x{2128}\x{212a}-\x{212d})"
            R"(\x{212f}-\x{2134}\x{2139}\x{213c}-\x{213f}\x{2145}-\x{2149}\x{214e}\x{2183}\x{2184}\x{2c00}-\x{2c7b}\x{2c7e}-\x{2ce4})"
            R"(\x{2ceb}-\x{2cee}\x{2cf2}\x{2cf3}\x{a640}-\x{a66d}\x{a680}-\x{a69b}\x{a722}-\x{a76f}\x{a771}-\x{a787}\x{a78b}-\x{a78e})"
            R"(\x{ab70}-\x{abbf}\x{fb00}-\x{fb06}\x{fb13}-\x{fb17}\x{ff21}-\x{ff3a}\x{ff41}-\x{ff5a}\x{10400}-\x{1044f})"
            R"(\x{104b0}-\x{104d3}\x{104d8}-\x{104fb}\x{10c80}-\x{10cb2}\x{10cc0}-\x{10cf2}\x{118a0}-\x{118df}\x{1e900}-\x{1e943})"
            R"(]+)"),
    Pattern("[" QUERN_WS R"(]?[!-/:-~！-／：-～‘-‟\x{3000}-。]+)"),
    Pattern("[" QUERN_WS "]+$"),
    kDeepseekCoder[3],
    Pattern(R"(\p{N}+)")};

constexpr Pattern kBloomWords = " ?[^(" QUERN_WS R"(|.,!?…。，、।۔،)]+)";
constexpr std::array kBloom = {kBloomWords};
constexpr std::array kViking = {kBloomWords, kDigit};

// The merges of these know no borders of words.
constexpr std::array kLines = {Pattern(R"([^\n]+|\n+)")};

constexpr bool kClean = true, kWhole = true, kBos = true, kCharacters = true, kNewlines = true;

// Sorted by name.
constexpr PreTokenizerSpec kTable[] = {
    {"a.x-4.0", kGpt2, kClean},
    {"afmoe", kAfmoe},
    {"bailingmoe", kQwen2},
    {"bailingmoe2", kQwen2},
    {"bloom", kBloom, kClean},
    {"chameleon", kChameleon, false, false, kBos},
    {"chatglm-bpe", kLlama3, kClean},
    {"codeshell", kSmollm, kClean},
    {"cohere2moe", kTinyAya},
    {"command-r", kSmollm},
    {"dbrx", kLlama3, kClean},
    {"deepseek-coder", kDeepseekCoder},
    {"deepseek-llm", kDeepseekLlm},
    {"deepseek-r1-qwen", kQwen2},
    {"deepseek-v3", kDeepseekV3},
    {"default", kDefault, kClean},
    {"exaone", kSmollm, kClean},
    {"exaone-moe", kExaoneMoe, kClean},
    {"exaone4", kGpt2, kClean},
    {"f2llmv2", kQwen2},
    {"falcon", kFalcon, kClean},
    {"falcon-h1", kLlama3, kClean, kWhole, kBos},
    {"falcon3", kLlama3, kClean, kWhole, kBos},
    {"gemma4", kLines, kClean, false, kBos, kCharacters, kNewlines},
    {"gigachat", kGpt2, kClean},
    {"glm4", kLlama3, kClean, kWhole},
    {"glm5", kLlama3, kClean, kWhole},
    {"gpt-2", kGpt2, kClean},
    {"gpt-4o", kGpt4o},
    {"gpt3-finnish", kBloom, kClean},
    {"granite-docling", kGpt2},
    {"granite-embed-multi-311m", kLines, kClean, false, false, kCharacters, kNewlines},
    {"granite-embed-multi-97m", kGpt4o, false, kWhole},
    {"grok-2", kQwen2},
    {"hunyuan", kQwen2},
    {"hunyuan-dense", kDeepseekV3},
    {"hy_v4", kDeepseekV3},
    {"jais", kGpt2, kClean},
    {"jais-2", kJais2, kClean},
    {"jina-de", kGpt2, kClean},
    {"jina-es", kGpt2, kClean},
    {"jina-v1-en", kGpt2, kClean},
    {"jina-v2-code", kGpt2, kClean},
    {"jina-v2-de", kGpt2, kClean},
    {"jina-v2-es", kGpt2, kClean},
    {"jina-v5-nano", kLlama3, kClean, kWhole, kBos},
    {"joyai-llm", kDeepseekV3},
    {"kanana2", kGpt4o},
    {"kimi-k2", kKimiK2},
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
    {"modern-bert", kGpt2, kClean},
    {"mpt", kGpt2, kClean},
    {"olmo", kGpt2, kClean},
    {"phi-2", kGpt2, kClean},
    {"pixtral", kLlama3, kClean, kWhole, kBos},
    {"poro-chat", kBloom},
    {"qwen2", kQwen2},
    {"qwen35", kQwen35},
    {"refact", kSmollm, kClean},
    {"roberta-bpe", kGpt2, kClean},
    {"sarvam-moe", kLines, false, false, false, kCharacters},
    {"seed-coder", kSeedCoder},
    {"smaug-bpe", kLlama3, kClean},
    {"smollm", kSmollm},
    {"solar-open", kQwen2},
    {"spark2_5", kSpark},
    {"stablelm2", kQwen2, kClean},
    {"starcoder", kSmollm, kClean},
    {"superbpe", kSuperBpe},
    {"talkie", kGpt4o},
    {"tekken", kTekken, false, kWhole, kBos},
    {"tiny_aya", kTinyAya},
    {"trillion", kGpt2},
    {"ufakzeka", kUfakzeka},
    {"viking", kViking},
    {"youtu", kYoutu, false, kWhole},
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
