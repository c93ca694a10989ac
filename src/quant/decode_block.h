// One block to float32, an overload a format: the scalar definitions behind decode_row, for tests and for code that has
// a typed block in hand. The order of the float operations is part of the format (reference data pins the bits).
#pragma once
#include "quant/blocks.h"

namespace quern {

/// Writes Block::kElems floats.
void decode_block(const BlockQ4_0& block, float* dst);
void decode_block(const BlockQ4_1& block, float* dst);
void decode_block(const BlockQ5_0& block, float* dst);
void decode_block(const BlockQ5_1& block, float* dst);
void decode_block(const BlockQ8_0& block, float* dst);
void decode_block(const BlockQ2_K& block, float* dst);
void decode_block(const BlockQ3_K& block, float* dst);
void decode_block(const BlockQ4_K& block, float* dst);
void decode_block(const BlockQ5_K& block, float* dst);
void decode_block(const BlockQ6_K& block, float* dst);

/// The 6-bit scale and minimum of group g (0…7) of a Q4_K or Q5_K block.
struct ScaleMin {
  uint8_t scale, min;
};
ScaleMin k_scale_min(const uint8_t scales[12], int g);
/// The 16 sub-scales of a Q3_K block, −32…31.
void q3_k_scales(const BlockQ3_K& block, int8_t scales[16]);

}  // namespace quern
