// What a cache row becomes when it is stored and what attention sees when it reads it back: the definition, in plain code
// that every instruction set shares. Knows nothing of heads, pieces or rotation.
#pragma once
#include <cstddef>

#include "quant/kv_format.h"

namespace quern {

/// Stores `dim` floats as row `position` (0…255) of a K or V block.
///   f16, bf16: round to nearest even. fp8: scale = the smallest power of two with amax ≤ 464·scale (464 rounds to 448, the largest code).
///   int8: scale = f16(amax/127), code = rne(x/scale) in ±127. int4: scale = f16(x of largest magnitude / −8), code = rne(x/scale) in −8…7,
///   stored plus 8.
/// A row (or group) with a value that is not finite gets a NaN scale, so that the fault shows instead of hiding.
void kv_store_k(KvType type, const float* row, size_t dim, std::byte* block, size_t position);
void kv_store_v(KvType type, const float* row, size_t dim, std::byte* block, size_t position);

/// Reads row `position` of a block back as float32.
void kv_load_k(KvType type, const std::byte* block, size_t dim, size_t position, float* row);
void kv_load_v(KvType type, const std::byte* block, size_t dim, size_t position, float* row);

}  // namespace quern
