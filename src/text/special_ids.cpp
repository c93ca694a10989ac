// Roles by key and by name.
#include "text/special_ids.h"

#include <algorithm>
#include <cctype>

#include "base/check.h"

namespace quern::text {

namespace {

/// Entries that end an answer, by the names in use. A vocabulary may hold several of them.
constexpr std::string_view kEndNames[] = {"<|eot_id|>",
                                          "<|im_end|>",
                                          "<|end|>",
                                          "<|return|>",
                                          "<|call|>",
                                          "<|flush|>",
                                          "<|calls|>",
                                          "<end_of_turn>",
                                          "<|endoftext|>",
                                          "</s>",
                                          "<|eom_id|>",
                                          "<EOT>",
                                          "_<EOT>",
                                          "[EOT]",
                                          "[EOS]",
                                          "<|end_of_text|>",
                                          "<end_of_utterance>",
                                          "<eos>",
                                          "<turn|>",
                                          "<|tool_response>",
                                          "<｜end▁of▁sentence｜>",
                                          "[e~["};

/// Fill-in-the-middle entries after which a code model has nothing more to say, with their keys.
constexpr std::string_view kFileEndKeys[] = {"tokenizer.ggml.fim_pad_token_id", "tokenizer.ggml.fim_rep_token_id",
                                             "tokenizer.ggml.fim_sep_token_id"};
constexpr std::string_view kFileEndNames[] = {"<|fim_pad|>", "<fim-pad>",    "<fim_pad>",     "<PAD>",
                                              "[PAD]",       "<|fim_repo|>", "<|repo_name|>", "<fim-repo>",
                                              "<REPO>",      "<reponame>",   "<|file_sep|>"};
/// Entries that only structure a prompt: not text, even where the file calls them user-defined.
constexpr std::string_view kStructureNames[] = {
    "<|fim_prefix|>",  "<fim-prefix>",  "<fim_prefix>",    "<｜fim▁begin｜>", "<PRE>",           "▁<PRE>",
    "<|code_prefix|>", "<|prefix|>",    "<|fim_suffix|>",  "<fim-suffix>",    "<fim_suffix>",    "<｜fim▁hole｜>",
    "<SUF>",           "▁<SUF>",        "<|code_suffix|>", "<|suffix|>",      "<|fim_middle|>",  "<fim-middle>",
    "<fim_middle>",    "<｜fim▁end｜>", "<MID>",           "▁<MID>",          "<|code_middle|>", "<|middle|>"};
/// Control entries of gpt-oss that carry structure a front end has to see.
constexpr std::string_view kShownNames[] = {"<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"};

TokenId id_by_key(const gguf::Header& header, const Vocab& vocab, std::string_view key) {
  const auto id = header.get_int(key);
  if (!id || *id == -1 || *id == int64_t(UINT32_MAX)) return kNoToken;  // −1 in 32 bits: "none"
  if (*id < 0 || uint64_t(*id) >= vocab.size()) {
    throw_error(ErrorKind::kModel, "{} is {}, but the vocabulary has the ids 0 to {}", key, *id, vocab.size() - 1);
  }
  return TokenId(*id);
}

/// Entries that are known by their names.
class NamedEntries {
 public:
  NamedEntries(const gguf::Header& header, Vocab& vocab)
      : vocab_(vocab), typed_(header.get_array("tokenizer.ggml.token_type") != nullptr) {}

  /// The entry of that name, unless the file calls it ordinary text (in a file without types, any).
  TokenId find(std::string_view name) const {
    const TokenId id = vocab_.find(name);
    if (id == kNoToken) return kNoToken;
    const bool special = vocab_.attributes(id) & (kAttrControl | kAttrUserDefined | kAttrUnknown);
    return special || !typed_ ? id : kNoToken;
  }
  /// The same; and from now on the entry counts as control, ordinary text or not. The reference does so for these
  /// names, which shows where special tokens are parsed: Qwen has the HTML tag </s> as ordinary text. (It also ends
  /// answers there; we do not.)
  TokenId find_control(std::string_view name) const {
    const TokenId special = find(name), any = vocab_.find(name);
    if (any != kNoToken) vocab_.attributes(any) |= kAttrControl;
    return special;
  }

 private:
  Vocab& vocab_;
  bool typed_;
};

std::vector<TokenId> find_end_tokens(const gguf::Header& header, Vocab& vocab, const NamedEntries& named, TokenId eos) {
  std::vector<TokenId> ids = {eos, id_by_key(header, vocab, "tokenizer.ggml.eot_token_id"),
                              id_by_key(header, vocab, "tokenizer.ggml.eom_token_id")};
  for (const std::string_view key : kFileEndKeys) ids.push_back(id_by_key(header, vocab, key));
  for (const std::string_view name : kEndNames) ids.push_back(named.find_control(name));
  for (const std::string_view name : kFileEndNames) ids.push_back(named.find_control(name));
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  if (!ids.empty() && ids.front() == kNoToken) ids.erase(ids.begin());

  const auto ends = [&](std::string_view name) {
    const TokenId id = vocab.find(name);
    return std::binary_search(ids.begin(), ids.end(), id) ? id : kNoToken;
  };
  const auto keep_going_after = [&](TokenId id) {
    if (id != kNoToken && id != eos) ids.erase(std::find(ids.begin(), ids.end(), id));
  };
  // gpt-oss and Solar close every message of an answer with <|end|>; the answer itself ends with one of the others.
  const bool has_call = ends("<|call|>") != kNoToken || ends("<|calls|>") != kNoToken;
  if (has_call && (ends("<|return|>") != kNoToken || ends("<|flush|>") != kNoToken)) keep_going_after(ends("<|end|>"));
  // gemma 4 has </s> as an HTML tag: text like any other.
  const TokenId tag = vocab.find("</s>");
  if (vocab.find("<|tool_response>") != kNoToken && tag != kNoToken && tag != eos) {
    keep_going_after(ends("</s>"));
    vocab.attributes(tag) = kAttrNormal;
  }
  return ids;
}

/// A mask takes the place of a word and of the space in front of it (lstrip in the tokenizer.json of these models, which
/// GGUF does not carry).
void strip_before_mask(const gguf::Header& header, Vocab& vocab) {
  const std::string_view architecture = header.get_string("general.architecture").value_or("");
  const std::string_view pre = header.get_string("tokenizer.ggml.pre").value_or("");
  const bool by_pre = pre == "jina-v2-de" || pre == "jina-v2-es" || pre == "jina-v2-code";
  if (architecture != "nomic-bert-moe" && architecture != "jina-bert-v3" && !by_pre) return;
  const TokenId mask = vocab.find("<mask>");
  if (mask != kNoToken) vocab.attributes(mask) |= kAttrStripLeft;
}

/// Phi-3 was trained with white space dropped after its special tokens (rstrip, likewise).
void strip_after_special_tokens(const gguf::Header& header, Vocab& vocab) {
  std::string name(header.get_string("general.name").value_or(""));
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  if (name.find("phi-3") == std::string::npos && name.find("phi3") == std::string::npos) return;
  for (size_t i = 0; i < vocab.size(); ++i) {
    uint16_t& attributes = vocab.attributes(TokenId(i));
    if (attributes & (kAttrControl | kAttrUserDefined | kAttrUnknown)) attributes |= kAttrStripRight;
  }
  for (const std::string_view keeps : {"<unk>", "<s>", "<|endoftext|>"}) {
    const TokenId id = vocab.find(keeps);
    if (id != kNoToken) vocab.attributes(id) &= uint16_t(~kAttrStripRight);
  }
}

}  // namespace

SpecialIds find_special_ids(const gguf::Header& header, Vocab& vocab, bool add_bos_by_default,
                            std::vector<std::string>& warnings) {
  SpecialIds ids;
  const NamedEntries named(header, vocab);
  ids.bos = id_by_key(header, vocab, "tokenizer.ggml.bos_token_id");
  ids.eos = id_by_key(header, vocab, "tokenizer.ggml.eos_token_id");
  ids.unknown = id_by_key(header, vocab, "tokenizer.ggml.unknown_token_id");
  if (vocab.kind() == VocabKind::kSentencePiece || vocab.kind() == VocabKind::kUnigram) {  // the names that SentencePiece itself gives; T5 has no <s>
    if (!header.find("tokenizer.ggml.bos_token_id") && vocab.kind() != VocabKind::kUnigram) ids.bos = named.find("<s>");
    if (!header.find("tokenizer.ggml.eos_token_id")) ids.eos = named.find("</s>");
    if (!header.find("tokenizer.ggml.unknown_token_id")) ids.unknown = named.find("<unk>");
  }
  if (vocab.kind() == VocabKind::kWordPiece) {  // text stands between [CLS] and [SEP]
    const auto key_or_name = [&](std::string_view key, std::string_view name) {
      return header.find(key) ? id_by_key(header, vocab, key) : named.find(name);
    };
    if (ids.bos == kNoToken) ids.bos = key_or_name("tokenizer.ggml.cls_token_id", "[CLS]");
    ids.eos = key_or_name("tokenizer.ggml.seperator_token_id", "[SEP]");  // spelled so in the format
    if (ids.unknown == kNoToken) ids.unknown = named.find("[UNK]");
  }
  ids.add_bos = header.get_bool("tokenizer.ggml.add_bos_token").value_or(add_bos_by_default && ids.bos != kNoToken);
  const bool closes = vocab.kind() == VocabKind::kUnigram || vocab.kind() == VocabKind::kWordPiece;
  const bool add_eos_by_default = closes && ids.eos != kNoToken;
  ids.add_eos = header.get_bool("tokenizer.ggml.add_eos_token").value_or(add_eos_by_default);
  const auto need = [&](bool& wanted, TokenId id, std::string_view which) {
    if (!wanted || id != kNoToken) return;
    wanted = false;
    warnings.push_back(
        fmt::format("tokenizer.ggml.add_{0}_token is true, but the file names no {0} token: none is added", which));
  };
  need(ids.add_bos, ids.bos, "bos");
  need(ids.add_eos, ids.eos, "eos");

  ids.end_tokens = find_end_tokens(header, vocab, named, ids.eos);
  for (const std::string_view name : kStructureNames) named.find_control(name);
  for (const std::string_view name : kShownNames) {
    const TokenId id = named.find_control(name);
    if (id != kNoToken) vocab.attributes(id) |= kAttrShown;
  }
  strip_before_mask(header, vocab);
  strip_after_special_tokens(header, vocab);
  return ids;
}

}  // namespace quern::text
