// What a stored number is: the scalar definition of every format's decoding, bit-identical with the reference data.
#pragma once
#include <cstddef>

#include "quant/format.h"

namespace quern {

/// Decodes one row of n_elems (a multiple of the format's block_elems) to float32. `src` needs no alignment.
/// The format must have can_decode.
void decode_row(TensorType type, const std::byte* src, float* dst, size_t n_elems);

}  // namespace quern
