// Which entries of a vocabulary have a role: where text begins and ends, what ends an answer, what only structures a
// prompt. From the file's keys first, then from the names that are in common use. Changes attributes where the file is
// known to understate them.
#pragma once
#include <string>
#include <vector>

#include "text/vocab.h"

namespace quern::text {

struct SpecialIds {
  TokenId bos = kNoToken, eos = kNoToken, unknown = kNoToken;
  bool add_bos = false, add_eos = false;
  std::vector<TokenId> end_tokens;  ///< ascending
};

/// `add_bos_by_default`: what the tokenizer's kind wants where tokenizer.ggml.add_bos_token is absent.
/// @throws Error(kModel) when a key names an id outside the vocabulary.
SpecialIds find_special_ids(const gguf::Header& header, Vocab& vocab, bool add_bos_by_default,
                            std::vector<std::string>& warnings);

}  // namespace quern::text
