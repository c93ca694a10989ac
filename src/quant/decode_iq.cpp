// Decoding of the codebook formats (IQ1, IQ2, IQ3, IQ4). Indices are entries of 4 or 8 elements; scales are odd
// integers under d.
#include "base/fp.h"
#include "quant/codebooks.h"
#include "quant/decode_block.h"

namespace quern {
namespace {

/// dst[j] = scale · entry[j], negated where bit j of signs is set.
template <size_t kWidth>
void put_signed(float scale, const std::array<int8_t, kWidth>& entry, uint32_t signs, float* dst) {
  for (size_t j = 0; j < kWidth; ++j) {
    const float magnitude = scale * float(entry[j]);
    dst[j] = signs >> j & 1 ? -magnitude : magnitude;
  }
}

/// dst[j] = scale · (entry[j] ± 1/8): IQ1's levels are shifted as a whole.
void put_shifted(float scale, const std::array<int8_t, 8>& entry, bool down, float* dst) {
  const float delta = down ? -0.125f : 0.125f;
  for (int j = 0; j < 8; ++j) dst[j] = scale * (float(entry[j]) + delta);
}

}  // namespace

void decode_block(const BlockIQ2_XXS& block, float* dst) {
  const float d = f16_to_f32(block.d);
  for (int g = 0; g < 8; ++g) {
    const uint32_t indices = block.qs[2 * g];
    const uint32_t rest = block.qs[2 * g + 1];
    const float scale = d * (0.5f + float(rest >> 28)) * 0.25f;
    for (int k = 0; k < 4; ++k) {
      put_signed(scale, kIq2XxsGrid[indices >> (8 * k) & 255], even_signs(rest >> (7 * k)), dst + g * 32 + k * 8);
    }
  }
}

void decode_block(const BlockIQ2_XS& block, float* dst) {
  const float d = f16_to_f32(block.d);
  for (int k = 0; k < 32; ++k) {
    const uint32_t q = block.qs[k];
    const int sub = block.scales[k / 4] >> (k / 2 % 2 * 4) & 15;
    put_signed(d * (0.5f + float(sub)) * 0.25f, kIq2XsGrid[q & 511], even_signs(q >> 9), dst + k * 8);
  }
}

void decode_block(const BlockIQ2_S& block, float* dst) {
  const float d = f16_to_f32(block.d);
  for (int k = 0; k < 32; ++k) {
    const int index = block.qs[k] | (block.qh[k / 4] >> (k % 4 * 2) & 3) << 8;
    const int sub = block.scales[k / 4] >> (k / 2 % 2 * 4) & 15;
    put_signed(d * (0.5f + float(sub)) * 0.25f, kIq2SGrid[size_t(index)], block.signs[k], dst + k * 8);
  }
}

void decode_block(const BlockIQ3_XXS& block, float* dst) {
  const float d = f16_to_f32(block.d);
  for (int g = 0; g < 8; ++g) {
    const uint32_t rest = block.scales_signs[g];
    const float scale = d * (0.5f + float(rest >> 28)) * 0.5f;
    for (int k = 0; k < 8; ++k) {  // two entries of 4 share a sign index
      const uint32_t signs = even_signs(rest >> (k / 2 * 7)) >> (k % 2 * 4);
      put_signed(scale, kIq3XxsGrid[block.qs[g * 8 + k]], signs, dst + g * 32 + k * 4);
    }
  }
}

void decode_block(const BlockIQ3_S& block, float* dst) {
  const float d = f16_to_f32(block.d);
  for (int k = 0; k < 64; ++k) {
    const int index = block.qs[k] | (block.qh[k / 8] >> (k % 8) & 1) << 8;
    const int sub = block.scales[k / 16] >> (k / 8 % 2 * 4) & 15;
    put_signed(d * float(1 + 2 * sub), kIq3SGrid[size_t(index)], block.signs[k / 2] >> (k % 2 * 4), dst + k * 4);
  }
}

void decode_block(const BlockIQ1_S& block, float* dst) {
  const float d = f16_to_f32(block.d);
  for (int k = 0; k < 32; ++k) {
    const uint32_t high = block.qh[k / 4];
    const float scale = d * float(2 * (high >> 12 & 7) + 1);
    const uint32_t index = block.qs[k] | (high >> (k % 4 * 3) & 7) << 8;
    put_shifted(scale, kIq1Grid[index], high >> 15 & 1, dst + k * 8);
  }
}

uint16_t iq1_m_scale(const BlockIQ1_M& block) {
  uint32_t bits = 0;
  for (int i = 0; i < 4; ++i) bits |= uint32_t(block.scales[i] >> 12) << (4 * i);
  return uint16_t(bits);
}

void decode_block(const BlockIQ1_M& block, float* dst) {
  const float d = f16_to_f32(iq1_m_scale(block));
  for (int k = 0; k < 32; ++k) {
    const int sub = block.scales[k / 8] >> (k / 2 % 4 * 3) & 7;
    const int high = block.qh[k / 2] >> (k % 2 * 4) & 15;
    const int index = block.qs[k] | (high & 7) << 8;
    put_shifted(d * float(2 * sub + 1), kIq1Grid[size_t(index)], high & 8, dst + k * 8);
  }
}

void decode_block(const BlockIQ4_NL& block, float* dst) {
  const float d = f16_to_f32(block.d);
  for (int j = 0; j < 16; ++j) {
    dst[j] = d * float(kIq4Levels[block.qs[j] & 15]);
    dst[j + 16] = d * float(kIq4Levels[block.qs[j] >> 4]);
  }
}

int iq4_xs_scale(const BlockIQ4_XS& block, int g) {
  return ((block.scales_l[g / 2] >> (g % 2 * 4) & 15) | (block.scales_h >> (2 * g) & 3) << 4) - 32;
}

void decode_block(const BlockIQ4_XS& block, float* dst) {
  const float d = f16_to_f32(block.d);
  for (int g = 0; g < 8; ++g) {
    const float scale = d * float(iq4_xs_scale(block, g));
    for (int j = 0; j < 16; ++j) {
      dst[g * 32 + j] = scale * float(kIq4Levels[block.qs[g * 16 + j] & 15]);
      dst[g * 32 + 16 + j] = scale * float(kIq4Levels[block.qs[g * 16 + j] >> 4]);
    }
  }
}

}  // namespace quern
