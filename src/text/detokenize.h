// From tokens to bytes: what one token stands for, and the clean-up of white space that some vocabularies ask for.
#pragma once
#include <string>

#include "text/vocab.h"

namespace quern::text {

/// The bytes of one token. Control and unknown tokens give nothing unless `special`.
std::string token_piece(const Vocab& vocab, TokenId id, bool special);

/// The clean-up of byte-level vocabularies, in place: no space before . , ? ! and before 's 'm 're 've, and none around
/// an apostrophe that stands alone.
void clean_spaces(std::string& text);

}  // namespace quern::text
