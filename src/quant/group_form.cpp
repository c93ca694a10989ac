// Blocks to groups, an overload a format. Scales and codes are read as decode_*.cpp reads them; only the arithmetic differs:
// here everything but D and M stays an integer.
#include "quant/group_form.h"

#include <cstring>

#include "base/check.h"
#include "base/fp.h"
#include "quant/codebooks.h"
#include "quant/decode_block.h"

namespace quern {
namespace {

void set_scales(WeightGroup& group, int s0, int s1, float D) {
  group.s[0] = int16_t(s0);
  group.s[1] = int16_t(s1);
  group.D = D;
}

void set_mins(WeightGroup& group, int m0, int m1, float M) {
  group.m[0] = int16_t(m0);
  group.m[1] = int16_t(m1);
  group.M = M;
}

/// Element j in the low nibble of byte j, element j + 16 in the high one.
void put_nibbles(const uint8_t* qs, WeightGroup& group) {
  for (int j = 0; j < 16; ++j) {
    group.codes[j] = qs[j] & 15;
    group.codes[j + 16] = qs[j] >> 4;
  }
}

void put_fifth_bits(uint32_t qh, WeightGroup& group) {
  for (int j = 0; j < 32; ++j) group.codes[j] = uint8_t(group.codes[j] | (qh >> j & 1) << 4);
}

void unpack(const BlockQ4_0& block, WeightGroup* groups) {
  put_nibbles(block.qs, *groups);
  set_scales(*groups, 1, 1, f16_to_f32(block.d));
}

void unpack(const BlockQ4_1& block, WeightGroup* groups) {
  put_nibbles(block.qs, *groups);
  set_scales(*groups, 1, 1, f16_to_f32(block.d));
  set_mins(*groups, 1, 1, f16_to_f32(block.m));
}

void unpack(const BlockQ5_0& block, WeightGroup* groups) {
  put_nibbles(block.qs, *groups);
  put_fifth_bits(block.qh, *groups);
  set_scales(*groups, 1, 1, f16_to_f32(block.d));
}

void unpack(const BlockQ5_1& block, WeightGroup* groups) {
  put_nibbles(block.qs, *groups);
  put_fifth_bits(block.qh, *groups);
  set_scales(*groups, 1, 1, f16_to_f32(block.d));
  set_mins(*groups, 1, 1, f16_to_f32(block.m));
}

void unpack(const BlockQ8_0& block, WeightGroup* groups) {
  for (int j = 0; j < 32; ++j) groups->codes[j] = uint8_t(block.qs[j] + 128);
  set_scales(*groups, 1, 1, f16_to_f32(block.d));
}

void unpack(const BlockQ2_K& block, WeightGroup* groups) {
  const float D = f16_to_f32(block.d), M = -f16_to_f32(block.dmin);
  for (int g = 0; g < 8; ++g) {
    const uint8_t* qs = block.qs + g / 4 * 32;
    for (int j = 0; j < 32; ++j) groups[g].codes[j] = qs[j] >> (g % 4 * 2) & 3;
    const uint8_t s0 = block.scales[2 * g], s1 = block.scales[2 * g + 1];
    set_scales(groups[g], s0 & 15, s1 & 15, D);
    set_mins(groups[g], s0 >> 4, s1 >> 4, M);
  }
}

void unpack(const BlockQ3_K& block, WeightGroup* groups) {
  int8_t scales[16];
  q3_k_scales(block, scales);
  for (int g = 0; g < 8; ++g) {
    const uint8_t* qs = block.qs + g / 4 * 32;
    for (int j = 0; j < 32; ++j) groups[g].codes[j] = uint8_t((qs[j] >> (g % 4 * 2) & 3) | (block.hmask[j] >> g & 1) << 2);
    set_scales(groups[g], scales[2 * g], scales[2 * g + 1], f16_to_f32(block.d));
  }
}

/// The part that Q4_K and Q5_K share.
template <typename Block>
void unpack_nibbles_and_scales(const Block& block, WeightGroup* groups) {
  const float D = f16_to_f32(block.d), M = -f16_to_f32(block.dmin);
  for (int g = 0; g < 8; ++g) {
    for (int j = 0; j < 32; ++j) groups[g].codes[j] = block.qs[g / 2 * 32 + j] >> (g % 2 * 4) & 15;
    const ScaleMin sm = k_scale_min(block.scales, g);
    set_scales(groups[g], sm.scale, sm.scale, D);
    set_mins(groups[g], sm.min, sm.min, M);
  }
}

void unpack(const BlockQ4_K& block, WeightGroup* groups) { unpack_nibbles_and_scales(block, groups); }

void unpack(const BlockQ5_K& block, WeightGroup* groups) {
  unpack_nibbles_and_scales(block, groups);
  for (int g = 0; g < 8; ++g) {
    for (int j = 0; j < 32; ++j) groups[g].codes[j] = uint8_t(groups[g].codes[j] | (block.qh[j] >> g & 1) << 4);
  }
}

void unpack(const BlockQ6_K& block, WeightGroup* groups) {
  for (int g = 0; g < 8; ++g) {
    const uint8_t* ql = block.ql + g / 4 * 64 + g % 2 * 32;
    const uint8_t* qh = block.qh + g / 4 * 32;
    for (int j = 0; j < 32; ++j) {
      groups[g].codes[j] = uint8_t((ql[j] >> (g % 4 / 2 * 4) & 15) | (qh[j] >> (g % 4 * 2) & 3) << 4);
    }
    set_scales(groups[g], block.scales[2 * g], block.scales[2 * g + 1], f16_to_f32(block.d));
  }
}

/// codes[j] = offset ± entry[j], negative where bit j of signs is set.
template <size_t kWidth>
void put_signed(const std::array<int8_t, kWidth>& entry, uint32_t signs, int offset, uint8_t* codes) {
  for (size_t j = 0; j < kWidth; ++j) codes[j] = uint8_t(signs >> j & 1 ? offset - entry[j] : offset + entry[j]);
}

void unpack(const BlockIQ2_XXS& block, WeightGroup* groups) {
  for (int g = 0; g < 8; ++g) {
    const uint32_t indices = block.qs[2 * g], rest = block.qs[2 * g + 1];
    for (int k = 0; k < 4; ++k) put_signed(kIq2XxsGrid[indices >> (8 * k) & 255], even_signs(rest >> (7 * k)), 43, groups[g].codes + 8 * k);
    const int s = int(2 * (rest >> 28) + 1);
    set_scales(groups[g], s, s, f16_to_f32(block.d) * 0.125f);
  }
}

void unpack(const BlockIQ2_XS& block, WeightGroup* groups) {
  for (int g = 0; g < 8; ++g) {
    for (int k = 0; k < 4; ++k) {
      const uint32_t q = block.qs[4 * g + k];
      put_signed(kIq2XsGrid[q & 511], even_signs(q >> 9), 43, groups[g].codes + 8 * k);
    }
    set_scales(groups[g], 2 * (block.scales[g] & 15) + 1, 2 * (block.scales[g] >> 4) + 1, f16_to_f32(block.d) * 0.125f);
  }
}

void unpack(const BlockIQ2_S& block, WeightGroup* groups) {
  for (int g = 0; g < 8; ++g) {
    for (int k = 0; k < 4; ++k) {
      const int index = block.qs[4 * g + k] | (block.qh[g] >> (2 * k) & 3) << 8;
      put_signed(kIq2SGrid[size_t(index)], block.signs[4 * g + k], 43, groups[g].codes + 8 * k);
    }
    set_scales(groups[g], 2 * (block.scales[g] & 15) + 1, 2 * (block.scales[g] >> 4) + 1, f16_to_f32(block.d) * 0.125f);
  }
}

void unpack(const BlockIQ3_XXS& block, WeightGroup* groups) {
  for (int g = 0; g < 8; ++g) {
    const uint32_t rest = block.scales_signs[g];
    for (int k = 0; k < 8; ++k) {  // two entries of 4 share a sign index
      put_signed(kIq3XxsGrid[block.qs[8 * g + k]], even_signs(rest >> (k / 2 * 7)) >> (k % 2 * 4), 62, groups[g].codes + 4 * k);
    }
    const int s = int(2 * (rest >> 28) + 1);
    set_scales(groups[g], s, s, f16_to_f32(block.d) * 0.25f);
  }
}

void unpack(const BlockIQ3_S& block, WeightGroup* groups) {
  for (int g = 0; g < 8; ++g) {
    for (int k = 0; k < 8; ++k) {
      const int index = block.qs[8 * g + k] | (block.qh[g] >> k & 1) << 8;
      put_signed(kIq3SGrid[size_t(index)], uint32_t(block.signs[4 * g + k / 2]) >> (k % 2 * 4), 15, groups[g].codes + 4 * k);
    }
    const int s = 2 * (block.scales[g / 2] >> (g % 2 * 4) & 15) + 1;
    set_scales(groups[g], s, s, f16_to_f32(block.d));
  }
}

/// Levels 8·entry ± 1 about 9.
void put_shifted(const std::array<int8_t, 8>& entry, bool down, uint8_t* codes) {
  for (size_t j = 0; j < 8; ++j) codes[j] = uint8_t(9 + 8 * entry[j] + (down ? -1 : 1));
}

void unpack(const BlockIQ1_S& block, WeightGroup* groups) {
  for (int g = 0; g < 8; ++g) {
    const uint32_t high = block.qh[g];
    for (int k = 0; k < 4; ++k) {
      put_shifted(kIq1Grid[block.qs[4 * g + k] | (high >> (3 * k) & 7) << 8], high >> 15 & 1, groups[g].codes + 8 * k);
    }
    const int s = int(2 * (high >> 12 & 7) + 1);
    set_scales(groups[g], s, s, f16_to_f32(block.d) * 0.125f);
  }
}

void unpack(const BlockIQ1_M& block, WeightGroup* groups) {
  const float D = f16_to_f32(iq1_m_scale(block)) * 0.125f;
  for (int g = 0; g < 8; ++g) {
    for (int k = 0; k < 4; ++k) {
      const int high = block.qh[2 * g + k / 2] >> (k % 2 * 4) & 15;
      put_shifted(kIq1Grid[size_t(block.qs[4 * g + k] | (high & 7) << 8)], high & 8, groups[g].codes + 8 * k);
    }
    const int scales = block.scales[g / 2] >> (g % 2 * 6);
    set_scales(groups[g], 2 * (scales & 7) + 1, 2 * (scales >> 3 & 7) + 1, D);
  }
}

/// codes[j] = offset + level of the nibble.
void put_levels(const int8_t levels[16], int offset, const uint8_t* qs, uint8_t* codes) {
  for (int j = 0; j < 16; ++j) {
    codes[j] = uint8_t(offset + levels[qs[j] & 15]);
    codes[j + 16] = uint8_t(offset + levels[qs[j] >> 4]);
  }
}

void unpack(const BlockIQ4_NL& block, WeightGroup* groups) {
  put_levels(kIq4Levels, 128, block.qs, groups->codes);
  set_scales(*groups, 1, 1, f16_to_f32(block.d));
}

void unpack(const BlockIQ4_XS& block, WeightGroup* groups) {
  for (int g = 0; g < 8; ++g) {
    put_levels(kIq4Levels, 128, block.qs + 16 * g, groups[g].codes);
    const int s = iq4_xs_scale(block, g);
    set_scales(groups[g], s, s, f16_to_f32(block.d));
  }
}

void unpack(const BlockTQ1_0& block, WeightGroup* groups) {
  uint8_t codes[256];
  uint8_t* next = codes;
  const auto run = [&](const uint8_t* bytes, int n_bytes, int n_digits) {
    for (int n = 0; n < n_digits; ++n) {
      for (int j = 0; j < n_bytes; ++j) *next++ = uint8_t(tq1_digit(bytes[j], n));
    }
  };
  run(block.qs, 32, 5);
  run(block.qs + 32, 16, 5);
  run(block.qh, 4, 4);
  for (int g = 0; g < 8; ++g) {
    std::memcpy(groups[g].codes, codes + 32 * g, 32);
    set_scales(groups[g], 1, 1, f16_to_f32(block.d));
  }
}

void unpack(const BlockTQ2_0& block, WeightGroup* groups) {
  for (int g = 0; g < 8; ++g) {
    for (int j = 0; j < 32; ++j) groups[g].codes[j] = block.qs[g / 4 * 32 + j] >> (g % 4 * 2) & 3;
    set_scales(groups[g], 1, 1, f16_to_f32(block.d));
  }
}

void unpack(const BlockMXFP4& block, WeightGroup* groups) {
  put_levels(kFp4Levels, 12, block.qs, groups->codes);
  set_scales(*groups, 1, 1, e8m0_half(block.e));
}

template <typename Block>
void unpack_copy(const std::byte* bytes, WeightGroup* groups) {
  Block block;
  std::memcpy(&block, bytes, sizeof(Block));
  unpack(block, groups);
}

}  // namespace

const GroupForm* find_group_form(TensorType type) {
  for (const GroupForm& form : kGroupForms) {
    if (form.type == type) return &form;
  }
  return nullptr;
}

void unpack_groups(TensorType type, const std::byte* block, WeightGroup* groups) {
  const bool known = with_block(WeightBlocks(), type, [&]<typename Block>() { unpack_copy<Block>(block, groups); });
  QUERN_CHECK(known, "unpack_groups of {}: it has no integer form", format_info(type).name);
}

}  // namespace quern
