// Folding of characters as BERT's normalizer does it: accents off, lower case. Complete tables, unlike the rules by range that the
// templates use. Knows nothing of UTF-8.
#pragma once
#include <cstdint>

namespace quern::text {

/// The first character of the canonical decomposition (NFD): É gives E, 한 its first letter. Most characters are their own.
uint32_t unicode_base(uint32_t code_point);

/// Simple lower case; İ gives i.
uint32_t unicode_lower(uint32_t code_point);

}  // namespace quern::text
