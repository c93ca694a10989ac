// Decoding of the formats with one scale for 32 elements.
#include "base/fp.h"
#include "quant/decode_block.h"

namespace quern {

void decode_block(const BlockQ4_0& block, float* dst) {
  const float d = f16_to_f32(block.d);
  for (int j = 0; j < 16; ++j) {
    dst[j] = d * float((block.qs[j] & 15) - 8);
    dst[j + 16] = d * float((block.qs[j] >> 4) - 8);
  }
}

void decode_block(const BlockQ4_1& block, float* dst) {
  const float d = f16_to_f32(block.d);
  const float m = f16_to_f32(block.m);
  for (int j = 0; j < 16; ++j) {
    dst[j] = d * float(block.qs[j] & 15) + m;
    dst[j + 16] = d * float(block.qs[j] >> 4) + m;
  }
}

void decode_block(const BlockQ5_0& block, float* dst) {
  const float d = f16_to_f32(block.d);
  for (int j = 0; j < 16; ++j) {
    const int low = (block.qs[j] & 15) | int((block.qh >> j & 1) << 4);
    const int high = (block.qs[j] >> 4) | int((block.qh >> (j + 16) & 1) << 4);
    dst[j] = d * float(low - 16);
    dst[j + 16] = d * float(high - 16);
  }
}

void decode_block(const BlockQ5_1& block, float* dst) {
  const float d = f16_to_f32(block.d);
  const float m = f16_to_f32(block.m);
  for (int j = 0; j < 16; ++j) {
    const int low = (block.qs[j] & 15) | int((block.qh >> j & 1) << 4);
    const int high = (block.qs[j] >> 4) | int((block.qh >> (j + 16) & 1) << 4);
    dst[j] = d * float(low) + m;
    dst[j + 16] = d * float(high) + m;
  }
}

void decode_block(const BlockQ8_0& block, float* dst) {
  const float d = f16_to_f32(block.d);
  for (int j = 0; j < 32; ++j) dst[j] = float(block.qs[j]) * d;
}

}  // namespace quern
