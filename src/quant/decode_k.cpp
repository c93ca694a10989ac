// Decoding of the K formats: 256 elements in groups with integer sub-scales under one or two f16 factors.
#include "base/fp.h"
#include "quant/decode_block.h"

namespace quern {

ScaleMin k_scale_min(const uint8_t scales[12], int g) {
  // Groups 0…3 use the low six bits of bytes g and g+4; groups 4…7 take four bits from byte g+4 and the two spare top
  // bits.
  if (g < 4) return {uint8_t(scales[g] & 63), uint8_t(scales[g + 4] & 63)};
  const uint8_t low = scales[g + 4];
  return {uint8_t((low & 15) | (scales[g - 4] >> 6) << 4), uint8_t((low >> 4) | (scales[g] >> 6) << 4)};
}

void q3_k_scales(const BlockQ3_K& block, int8_t scales[16]) {
  for (int i = 0; i < 16; ++i) {
    const int low = block.scales[i % 8] >> (i < 8 ? 0 : 4) & 15;
    const int high = block.scales[8 + i % 4] >> (i / 4 * 2) & 3;
    scales[i] = int8_t((low | high << 4) - 32);
  }
}

void decode_block(const BlockQ2_K& block, float* dst) {
  const float d = f16_to_f32(block.d);
  const float dmin = f16_to_f32(block.dmin);
  for (int g = 0; g < 16; ++g) {
    const float scale = d * float(block.scales[g] & 15);
    const float min = dmin * float(block.scales[g] >> 4);
    // 32 bytes hold 128 elements: groups 2s and 2s+1 of each half are its bit pairs s.
    const uint8_t* qs = block.qs + g / 8 * 32 + g % 2 * 16;
    const int shift = g / 2 % 4 * 2;
    for (int j = 0; j < 16; ++j) dst[g * 16 + j] = scale * float(qs[j] >> shift & 3) - min;
  }
}

void decode_block(const BlockQ3_K& block, float* dst) {
  const float d = f16_to_f32(block.d);
  int8_t scales[16];
  q3_k_scales(block, scales);
  for (int g = 0; g < 16; ++g) {
    const float scale = d * float(scales[g]);
    const uint8_t* qs = block.qs + g / 8 * 32 + g % 2 * 16;
    const uint8_t* hmask = block.hmask + g % 2 * 16;
    const int shift = g / 2 % 4 * 2;
    for (int j = 0; j < 16; ++j) {
      const int offset = hmask[j] >> (g / 2) & 1 ? 0 : 4;  // a set bit means that nothing is taken off
      dst[g * 16 + j] = scale * float((qs[j] >> shift & 3) - offset);
    }
  }
}

void decode_block(const BlockQ4_K& block, float* dst) {
  const float d = f16_to_f32(block.d);
  const float dmin = f16_to_f32(block.dmin);
  for (int g = 0; g < 8; ++g) {
    const ScaleMin sm = k_scale_min(block.scales, g);
    const float scale = d * float(sm.scale);
    const float min = dmin * float(sm.min);
    const uint8_t* qs = block.qs + g / 2 * 32;  // two groups share 32 bytes, the even one in the low nibbles
    const int shift = g % 2 * 4;
    for (int j = 0; j < 32; ++j) dst[g * 32 + j] = scale * float(qs[j] >> shift & 15) - min;
  }
}

void decode_block(const BlockQ5_K& block, float* dst) {
  const float d = f16_to_f32(block.d);
  const float dmin = f16_to_f32(block.dmin);
  for (int g = 0; g < 8; ++g) {
    const ScaleMin sm = k_scale_min(block.scales, g);
    const float scale = d * float(sm.scale);
    const float min = dmin * float(sm.min);
    const uint8_t* qs = block.qs + g / 2 * 32;
    const int shift = g % 2 * 4;
    for (int j = 0; j < 32; ++j) {
      const int q = (qs[j] >> shift & 15) | (block.qh[j] >> g & 1) << 4;
      dst[g * 32 + j] = scale * float(q) - min;
    }
  }
}

void decode_block(const BlockQ6_K& block, float* dst) {
  const float d = f16_to_f32(block.d);
  for (int g = 0; g < 16; ++g) {
    const float scale = d * float(block.scales[g]);
    // A half of 128 elements has 64 bytes of nibbles (first 64 elements low, last 64 high) and 32 bytes of bit pairs.
    const int first = g % 8 * 16;
    const uint8_t* ql = block.ql + g / 8 * 64 + first % 64;
    const uint8_t* qh = block.qh + g / 8 * 32 + first % 32;
    const int low_shift = first / 64 * 4;
    const int high_shift = first / 32 * 2;
    for (int j = 0; j < 16; ++j) {
      const int q = (ql[j] >> low_shift & 15) | (qh[j] >> high_shift & 3) << 4;
      dst[g * 16 + j] = scale * float(q - 32);
    }
  }
}

}  // namespace quern
