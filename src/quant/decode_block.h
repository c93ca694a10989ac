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
void decode_block(const BlockIQ1_S& block, float* dst);
void decode_block(const BlockIQ1_M& block, float* dst);
void decode_block(const BlockIQ2_XXS& block, float* dst);
void decode_block(const BlockIQ2_XS& block, float* dst);
void decode_block(const BlockIQ2_S& block, float* dst);
void decode_block(const BlockIQ3_XXS& block, float* dst);
void decode_block(const BlockIQ3_S& block, float* dst);
void decode_block(const BlockIQ4_NL& block, float* dst);
void decode_block(const BlockIQ4_XS& block, float* dst);
void decode_block(const BlockTQ1_0& block, float* dst);
void decode_block(const BlockTQ2_0& block, float* dst);
void decode_block(const BlockMXFP4& block, float* dst);

/// The 6-bit scale and minimum of group g (0…7) of a Q4_K or Q5_K block.
struct ScaleMin {
  uint8_t scale, min;
};
ScaleMin k_scale_min(const uint8_t scales[12], int g);
/// The 16 sub-scales of a Q3_K block, −32…31.
void q3_k_scales(const BlockQ3_K& block, int8_t scales[16]);

/// The f16 scale of an IQ1_M block, put together from the top nibbles.
uint16_t iq1_m_scale(const BlockIQ1_M& block);
/// The sub-scale of group g (0…7), −32…31.
int iq4_xs_scale(const BlockIQ4_XS& block, int g);
/// Base-3 digit n (0…4) of a TQ1_0 byte: 0, 1 or 2.
int tq1_digit(uint8_t byte, int n);
/// 2^(e−128), half the E8M0 scale, to go with kFp4Levels.
float e8m0_half(uint8_t e);

}  // namespace quern
