// libFuzzer target of the tokenizer: any vocabulary gives a tokenizer or Error(kModel), any text gives ids of that
// vocabulary, and where every byte has an entry, the ids give the text back. Input: flags, the number of entries, then
// the entries (kind and length, text) and, after them, the text.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "base/utf8.h"
#include "text/small_vocab.h"

namespace {

using namespace quern;

class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  uint8_t byte() { return at_ < size_ ? data_[at_++] : 0; }
  std::string bytes(size_t n) {
    std::string out;
    while (n-- > 0 && at_ < size_) out += char(data_[at_++]);
    return out;
  }
  std::string rest() { return bytes(size_); }

 private:
  const uint8_t* data_;
  size_t size_, at_ = 0;
};

std::string stand_ins(const std::string& text) {
  std::string out;
  for (const char c : text) out += test::SmallVocab::stand_in(uint8_t(c));
  return out;
}

/// Adds entries (and for byte-level vocabularies merges) as the input says; duplicates are left out half of the time.
void add_entries(test::SmallVocab& vocab, Input& input, bool allow_bad) {
  const bool byte_level = vocab.model == "gpt2";
  for (size_t n = input.byte() % 24; n > 0; --n) {
    const uint8_t head = input.byte();
    std::string text = input.bytes(1 + head % 6);
    const TokenKind kind = head & 0x80 ? TokenKind((head >> 4) % 7) : TokenKind::kNormal;
    if (byte_level && kind == TokenKind::kNormal) text = stand_ins(text);
    const bool known =
        std::any_of(vocab.entries.begin(), vocab.entries.end(), [&](const auto& e) { return e.text == text; });
    if (text.empty() || (known && !allow_bad)) continue;
    if (byte_level && kind == TokenKind::kNormal && !allow_bad) {
      // A merge of two entries that are there, so that the file is a good one.
      const auto& left = vocab.entries[head % vocab.entries.size()].text;
      const auto& right = vocab.entries[input.byte() % vocab.entries.size()].text;
      const std::string merged = left + right;
      if (merged.find(' ') == std::string::npos &&
          std::none_of(vocab.entries.begin(), vocab.entries.end(), [&](const auto& e) { return e.text == merged; })) {
        vocab.add_merge(std::string(left), std::string(right));
      }
      continue;
    }
    vocab.add(text, kind, float(int8_t(input.byte())));
    if (byte_level && allow_bad) vocab.merges.push_back(text + input.bytes(2));
  }
}

void check_text(const Tokenizer& tokenizer, const std::string& text, bool user_text_is_kept) {
  for (const bool parse_special : {false, true}) {
    const auto ids = tokenizer.encode(text, {.add_special = true, .parse_special = parse_special});
    for (const TokenId id : ids) {
      if (id < 0 || size_t(id) >= tokenizer.n_vocab()) std::abort();
    }
    const std::string back = tokenizer.decode(ids, true);
    tokenizer.decode(ids, false);
    if (user_text_is_kept && back != utf8_repair(text)) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  const uint8_t flags = input.byte();
  const bool allow_bad = flags & 2;
  test::SmallVocab vocab = flags & 1 ? test::SmallVocab::byte_level() : test::SmallVocab::sentence_piece();
  static constexpr const char* kPre[] = {"qwen2",       "smollm",         "tekken", "gpt-4o",
                                         "deepseek-v3", "deepseek-coder", "viking", "llama-bpe"};
  vocab.pre = kPre[flags >> 5];
  add_entries(vocab, input, allow_bad);
  gguf::Writer writer = vocab.writer();
  writer.set("tokenizer.ggml.add_space_prefix", (flags & 4) != 0);
  if (flags & 8) writer.set("tokenizer.ggml.eos_token_id", uint32_t(input.byte()));
  try {
    const test::WrittenTokenizer tokenizer(writer);
    // Byte-level pieces are the bytes themselves, unless an entry is of a kind that gives nothing, or spaces are
    // cleaned up.
    const bool kept = (flags & 1) && !allow_bad && vocab.pre != "llama-bpe";
    check_text(*tokenizer, input.rest(),
               kept && std::all_of(vocab.entries.begin(), vocab.entries.end(),
                                   [](const auto& e) { return e.kind == TokenKind::kNormal; }));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kModel) std::abort();
  }
  return 0;
}
