// The tokenizer that a GGUF file describes: special tokens first, then the kind's own splitting and merging.
#include "text/tokenizer.h"

#include <algorithm>
#include <optional>

#include "base/check.h"
#include "base/utf8.h"
#include "text/bpe.h"
#include "text/detokenize.h"
#include "text/pretokenizer.h"
#include "text/special_ids.h"
#include "text/special_tokens.h"
#include "text/spm.h"
#include "text/unigram.h"
#include "text/unigram_normalizer.h"
#include "text/wordpiece.h"

namespace quern {

namespace {

using namespace text;

/// Offsets inside the models have 32 bits, and a space becomes three bytes.
constexpr size_t kMaxTextBytes = size_t(1) << 30;

constexpr std::string_view kEscapedSpace = "\xe2\x96\x81";  // U+2581

std::string with_escaped_spaces(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 2);
  for (const char c : text) {
    if (c == ' ')
      out += kEscapedSpace;
    else
      out += c;
  }
  return out;
}

bool is_valid_utf8(std::string_view bytes) {
  for (size_t at = 0; at < bytes.size();) {
    if (uint8_t(bytes[at]) < 0x80) {
      ++at;
      continue;
    }
    const Utf8Char c = utf8_decode(bytes, at);
    if (!c.valid) return false;
    at += c.n_bytes;
  }
  return true;
}

const PreTokenizerSpec& pre_tokenizer_by_key(const gguf::Header& header, std::string_view override,
                                             std::vector<std::string>& warnings) {
  const std::string_view stored = header.get_string("tokenizer.ggml.pre").value_or("");
  const std::string_view name = !override.empty() ? override : !stored.empty() ? stored : "default";
  if (override.empty() && stored.empty()) {
    warnings.push_back(
        "tokenizer.ggml.pre is missing: text is split into words by the rule 'default', which is often not the one the "
        "model was "
        "trained with, and answers may be worse; give the right one with --pre NAME");
  }
  const PreTokenizerSpec* spec = find_pre_tokenizer(name);
  if (spec) return *spec;
  throw_error(override.empty() ? ErrorKind::kModel : ErrorKind::kUsage,
              "{} {} is not a known pre-tokenizer; override it with --pre NAME, where NAME is one of: {}",
              override.empty() ? "tokenizer.ggml.pre" : "--pre", gguf::quoted(name), pre_tokenizer_names());
}

/// What kind of vocabulary the file has; for those with a merge list, how words are cut as well.
struct Scheme {
  VocabKind kind;
  const PreTokenizerSpec* spec = nullptr;
};

Scheme scheme(const gguf::Header& header, std::string_view pre_override, std::vector<std::string>& warnings) {
  const auto model = header.get_string("tokenizer.ggml.model");
  if (!model) throw_error(ErrorKind::kModel, "tokenizer.ggml.model is missing: the file has no tokenizer");
  if (*model == "llama") return {VocabKind::kSentencePiece};
  if (*model == "t5") return {VocabKind::kUnigram};
  if (*model == "bert") return {VocabKind::kWordPiece};
  if (*model == "gpt2" || *model == "gemma4") {
    const PreTokenizerSpec* spec =
        *model == "gpt2" ? &pre_tokenizer_by_key(header, pre_override, warnings) : find_pre_tokenizer("gemma4");
    return {spec->characters ? VocabKind::kCharacterBpe : VocabKind::kByteLevel, spec};
  }
  throw_error(
      ErrorKind::kModel,
      "tokenizer.ggml.model is {}; known are 'llama' (SentencePiece BPE), 'gpt2' (byte-level BPE), 'gemma4' (BPE), "
      "'t5' (SentencePiece unigram) and 'bert' (WordPiece)",
      gguf::quoted(*model));
}

class GgufTokenizer final : public Tokenizer {
 public:
  GgufTokenizer(const gguf::Header& header, Scheme scheme, std::vector<std::string>& warnings)
      : vocab_(header, scheme.kind), spec_(scheme.spec) {
    const bool add_bos = spec_ ? spec_->add_bos : vocab_.kind() != VocabKind::kUnigram;
    SpecialIds ids = find_special_ids(header, vocab_, add_bos, warnings);
    bos_ = ids.bos;
    eos_ = ids.eos;
    add_bos_ = ids.add_bos;
    add_eos_ = ids.add_eos;
    if (spec_ && spec_->name == "gemma4" && !add_bos_ && bos_ != kNoToken) {
      add_bos_ = true;
      warnings.push_back(
          "tokenizer.ggml.add_bos_token is false, which is wrong for gemma 4: BOS is added all the same");
    }
    end_tokens_ = std::move(ids.end_tokens);
    special_.emplace(vocab_);
    if (vocab_.kind() == VocabKind::kUnigram) {
      normalizer_.emplace(header);
      add_space_prefix_ = normalizer_->add_space_prefix();
      unigram_.emplace(vocab_, ids.unknown);
      return;
    }
    if (vocab_.kind() == VocabKind::kWordPiece) {
      clean_spaces_ = true;
      word_piece_.emplace(vocab_, header, ids.unknown);
      return;
    }
    if (vocab_.kind() == VocabKind::kSentencePiece) {
      add_space_prefix_ = header.get_bool("tokenizer.ggml.add_space_prefix").value_or(true);
      sentence_piece_.emplace(vocab_, ids.unknown);
      return;
    }
    clean_spaces_ = spec_->clean_spaces;
    pre_tokenizer_.emplace(*spec_);
    merge_list_.emplace(vocab_, header);
  }

  std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options) const override {
    if (text.size() > kMaxTextBytes) {
      throw_error(ErrorKind::kUsage, "a text of {} bytes is too long for the tokenizer; {} are allowed", text.size(),
                  kMaxTextBytes);
    }
    std::vector<TokenId> out;
    const auto fragments = special_->partition(text, options.parse_special, options.plain);
    const auto is_token = [](const Fragment& fragment, TokenId id) { return id != kNoToken && fragment.token == id; };
    const bool begins_with_bos = !fragments.empty() && is_token(fragments.front(), bos_);
    const bool ends_with_eos = !fragments.empty() && is_token(fragments.back(), eos_);
    if (options.add_special && add_bos_ && !(options.single_bos && begins_with_bos)) out.push_back(bos_);
    if (merge_list_)
      encode_by_merge_list(fragments, out);
    else if (word_piece_)
      encode_word_piece(fragments, out);
    else if (unigram_)
      encode_unigram(fragments, options.continues, out);
    else
      encode_sentence_piece(fragments, options.continues, out);
    if (options.add_special && add_eos_ && !(options.single_bos && ends_with_eos)) out.push_back(eos_);
    return out;
  }

  std::string piece(TokenId id, bool special) const override { return token_piece(vocab_, checked(id), special); }

  std::string decode(std::span<const TokenId> ids, bool special) const override {
    std::string out;
    for (size_t i = 0; i < ids.size(); ++i) {
      std::string bytes = piece(ids[i], special);
      // The space that encoding put in front of the text is taken away again.
      if (i == 0 && add_space_prefix_ && bytes.starts_with(' ')) bytes.erase(0, 1);
      out += bytes;
    }
    if (clean_spaces_) clean_spaces(out);
    return out;
  }

  size_t n_lost_bytes(std::string_view text) const override {
    return merge_list_ ? merge_list_->n_missing_bytes(text) : 0;
  }

  size_t n_vocab() const override { return vocab_.size(); }

  TokenKind kind(TokenId id) const override {
    const uint16_t attributes = vocab_.attributes(checked(id));
    if (attributes & kAttrControl) return TokenKind::kControl;
    if (attributes & kAttrUnknown) return TokenKind::kUnknown;
    if (attributes & kAttrUserDefined) return TokenKind::kUserDefined;
    if (attributes & kAttrByte) return TokenKind::kByte;
    if (attributes & kAttrNormal) return TokenKind::kNormal;
    return attributes & kAttrUnused ? TokenKind::kUnused : TokenKind::kUndefined;
  }

  std::string_view text(TokenId id) const override { return vocab_.text(checked(id)); }
  TokenId find(std::string_view token_text) const override { return vocab_.find(token_text); }

 private:
  TokenId checked(TokenId id) const {
    if (id >= 0 && size_t(id) < vocab_.size()) return id;
    throw_error(ErrorKind::kUsage, "there is no token {}: the vocabulary has the ids 0 to {}", id, vocab_.size() - 1);
  }

  void encode_by_merge_list(const std::vector<Fragment>& fragments, std::vector<TokenId>& out) const {
    MergeListModel::Scratch scratch;
    std::vector<uint32_t> ends;
    std::string repaired, escaped;
    for (const Fragment& fragment : fragments) {
      if (fragment.token != kNoToken) {
        out.push_back(fragment.token);
        continue;
      }
      std::string_view valid = fragment.text;
      if (!is_valid_utf8(valid)) valid = repaired = utf8_repair(valid);
      if (spec_->characters) valid = escaped = with_escaped_spaces(valid);
      pre_tokenizer_->split(valid, ends);
      size_t begin = 0;
      for (const uint32_t end : ends) {
        const std::string_view word = valid.substr(begin, end - begin);
        const bool whole =
            spec_->whole_words || (spec_->whole_newlines && word.find_first_not_of('\n') == std::string_view::npos);
        merge_list_->encode_word(word, whole, scratch, out);
        begin = end;
      }
    }
  }

  void encode_sentence_piece(const std::vector<Fragment>& fragments, bool continues, std::vector<TokenId>& out) const {
    SentencePieceModel::Scratch scratch;
    std::string escaped;
    bool after_special = !continues;  // the beginning of the text counts as well
    for (const Fragment& fragment : fragments) {
      if (fragment.token != kNoToken) {
        out.push_back(fragment.token);
        after_special = true;
        continue;
      }
      escaped = with_escaped_spaces(fragment.text);
      if (add_space_prefix_ && after_special) escaped.insert(0, kEscapedSpace);
      sentence_piece_->encode(escaped, scratch, out);
      after_special = false;
    }
  }

  void encode_unigram(const std::vector<Fragment>& fragments, bool continues, std::vector<TokenId>& out) const {
    UnigramModel::Scratch scratch;
    std::string normalized;
    for (const Fragment& fragment : fragments) {
      if (fragment.token == kNoToken) {
        normalized.clear();
        normalizer_->normalize(fragment.text, continues, normalized);
        unigram_->encode(normalized, scratch, out);
      } else {
        out.push_back(fragment.token);
      }
      continues = false;  // every other piece of text gets its space
    }
  }

  void encode_word_piece(const std::vector<Fragment>& fragments, std::vector<TokenId>& out) const {
    for (const Fragment& fragment : fragments) {
      if (fragment.token != kNoToken)
        out.push_back(fragment.token);
      else
        word_piece_->encode(is_valid_utf8(fragment.text) ? std::string(fragment.text) : utf8_repair(fragment.text),
                            out);
    }
  }

  Vocab vocab_;
  const PreTokenizerSpec* spec_;  ///< of vocabularies with a merge list
  std::optional<SpecialTokens> special_;
  std::optional<UnigramNormalizer> normalizer_;
  std::optional<UnigramModel> unigram_;
  std::optional<WordPieceModel> word_piece_;
  std::optional<SentencePieceModel> sentence_piece_;
  std::optional<PreTokenizer> pre_tokenizer_;
  std::optional<MergeListModel> merge_list_;
  bool add_space_prefix_ = false;  ///< of SentencePiece: text gets a space in front, and decoding takes it away again
  bool clean_spaces_ = false;
};

}  // namespace

std::unique_ptr<Tokenizer> Tokenizer::from_gguf(const gguf::Header& header, std::string_view pre_override,
                                                std::vector<std::string>* warnings) {
  std::vector<std::string> unheard;
  auto& heard = warnings ? *warnings : unheard;
  return std::make_unique<GgufTokenizer>(header, scheme(header, pre_override, heard), heard);
}

bool Tokenizer::is_end(TokenId id) const {
  return std::binary_search(end_tokens_.begin(), end_tokens_.end(), id);
}

}  // namespace quern
