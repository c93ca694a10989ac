// How a block of each quantized format lies in a file: one packed struct a format, little-endian, no alignment
// demanded. Field names and layouts are those of the GGUF specification's reference (ggml-common.h); what they mean is
// in decode_*.cpp. f16 fields are raw bits (base/fp.h). In the 256-element formats "group" is a run of elements with
// one sub-scale.
#pragma once
#include <cstdint>

#include "quant/format.h"

namespace quern {

/// 4 bits, signed about 8. qs[j] holds element j (low nibble) and j+16 (high nibble).
struct [[gnu::packed]] BlockQ4_0 {
  static constexpr TensorType kType = TensorType::Q4_0;
  static constexpr uint32_t kElems = 32;
  uint16_t d;  ///< f16 scale
  uint8_t qs[16];
};
static_assert(sizeof(BlockQ4_0) == 18);

/// 4 bits with a minimum: d·q + m.
struct [[gnu::packed]] BlockQ4_1 {
  static constexpr TensorType kType = TensorType::Q4_1;
  static constexpr uint32_t kElems = 32;
  uint16_t d;  ///< f16 scale
  uint16_t m;  ///< f16 minimum
  uint8_t qs[16];
};
static_assert(sizeof(BlockQ4_1) == 20);

/// 5 bits, signed about 16: nibbles as Q4_0, bit j of qh is the fifth bit of element j.
struct [[gnu::packed]] BlockQ5_0 {
  static constexpr TensorType kType = TensorType::Q5_0;
  static constexpr uint32_t kElems = 32;
  uint16_t d;
  uint32_t qh;
  uint8_t qs[16];
};
static_assert(sizeof(BlockQ5_0) == 22);

/// 5 bits with a minimum.
struct [[gnu::packed]] BlockQ5_1 {
  static constexpr TensorType kType = TensorType::Q5_1;
  static constexpr uint32_t kElems = 32;
  uint16_t d;
  uint16_t m;
  uint32_t qh;
  uint8_t qs[16];
};
static_assert(sizeof(BlockQ5_1) == 24);

struct [[gnu::packed]] BlockQ8_0 {
  static constexpr TensorType kType = TensorType::Q8_0;
  static constexpr uint32_t kElems = 32;
  uint16_t d;
  int8_t qs[32];
};
static_assert(sizeof(BlockQ8_0) == 34);

struct [[gnu::packed]] BlockQ8_1 {
  static constexpr TensorType kType = TensorType::Q8_1;
  static constexpr uint32_t kElems = 32;
  uint16_t d;
  uint16_t s;  ///< f16, d · sum of qs
  int8_t qs[32];
};
static_assert(sizeof(BlockQ8_1) == 36);

/// 2 bits; 16 groups of 16, each with a 4-bit scale (low nibble) and a 4-bit minimum (high nibble).
struct [[gnu::packed]] BlockQ2_K {
  static constexpr TensorType kType = TensorType::Q2_K;
  static constexpr uint32_t kElems = 256;
  uint8_t scales[16];
  uint8_t qs[64];
  uint16_t d;
  uint16_t dmin;
};
static_assert(sizeof(BlockQ2_K) == 84);

/// 3 bits (two in qs, the third, inverted, in hmask); 16 groups of 16 with 6-bit scales about 32.
struct [[gnu::packed]] BlockQ3_K {
  static constexpr TensorType kType = TensorType::Q3_K;
  static constexpr uint32_t kElems = 256;
  uint8_t hmask[32];
  uint8_t qs[64];
  uint8_t scales[12];
  uint16_t d;
};
static_assert(sizeof(BlockQ3_K) == 110);

/// 4 bits; 8 groups of 32 with 6-bit scales and minimums, packed in 12 bytes.
struct [[gnu::packed]] BlockQ4_K {
  static constexpr TensorType kType = TensorType::Q4_K;
  static constexpr uint32_t kElems = 256;
  uint16_t d;
  uint16_t dmin;
  uint8_t scales[12];
  uint8_t qs[128];
};
static_assert(sizeof(BlockQ4_K) == 144);

/// 5 bits; as Q4_K, bit g of qh[j] is the fifth bit of element j of group g.
struct [[gnu::packed]] BlockQ5_K {
  static constexpr TensorType kType = TensorType::Q5_K;
  static constexpr uint32_t kElems = 256;
  uint16_t d;
  uint16_t dmin;
  uint8_t scales[12];
  uint8_t qh[32];
  uint8_t qs[128];
};
static_assert(sizeof(BlockQ5_K) == 176);

/// 6 bits about 32 (four in ql, two in qh); 16 groups of 16 with 8-bit signed scales.
struct [[gnu::packed]] BlockQ6_K {
  static constexpr TensorType kType = TensorType::Q6_K;
  static constexpr uint32_t kElems = 256;
  uint8_t ql[128];
  uint8_t qh[64];
  int8_t scales[16];
  uint16_t d;
};
static_assert(sizeof(BlockQ6_K) == 210);

struct [[gnu::packed]] BlockQ8_K {
  static constexpr TensorType kType = TensorType::Q8_K;
  static constexpr uint32_t kElems = 256;
  float d;
  int8_t qs[256];
  int16_t bsums[16];
};
static_assert(sizeof(BlockQ8_K) == 292);

/// Per group of 32, eight bytes: four codebook indices of 8 bits, then four 7-bit sign indices and a 4-bit scale.
struct [[gnu::packed]] BlockIQ2_XXS {
  static constexpr TensorType kType = TensorType::IQ2_XXS;
  static constexpr uint32_t kElems = 256;
  uint16_t d;
  uint32_t qs[16];
};
static_assert(sizeof(BlockIQ2_XXS) == 66);

/// Per 8 elements: 9 bits of codebook index, 7 of sign index; a 4-bit scale for 16 elements.
struct [[gnu::packed]] BlockIQ2_XS {
  static constexpr TensorType kType = TensorType::IQ2_XS;
  static constexpr uint32_t kElems = 256;
  uint16_t d;
  uint16_t qs[32];
  uint8_t scales[8];
};
static_assert(sizeof(BlockIQ2_XS) == 74);

/// Per 8 elements: 10 bits of codebook index (8 in qs, 2 in qh), 8 sign bits; a 4-bit scale for 16 elements.
struct [[gnu::packed]] BlockIQ2_S {
  static constexpr TensorType kType = TensorType::IQ2_S;
  static constexpr uint32_t kElems = 256;
  uint16_t d;
  uint8_t qs[32];
  uint8_t signs[32];
  uint8_t qh[8];
  uint8_t scales[8];
};
static_assert(sizeof(BlockIQ2_S) == 82);

/// Per 4 elements 8 bits of codebook index; per 32 four 7-bit sign indices and a 4-bit scale.
struct [[gnu::packed]] BlockIQ3_XXS {
  static constexpr TensorType kType = TensorType::IQ3_XXS;
  static constexpr uint32_t kElems = 256;
  uint16_t d;
  uint8_t qs[64];
  uint32_t scales_signs[8];
};
static_assert(sizeof(BlockIQ3_XXS) == 98);

/// Per 4 elements 9 bits of codebook index (8 in qs, 1 in qh), 4 sign bits; a 4-bit scale for 32 elements.
struct [[gnu::packed]] BlockIQ3_S {
  static constexpr TensorType kType = TensorType::IQ3_S;
  static constexpr uint32_t kElems = 256;
  uint16_t d;
  uint8_t qs[64];
  uint8_t qh[8];
  uint8_t signs[32];
  uint8_t scales[4];
};
static_assert(sizeof(BlockIQ3_S) == 110);

/// Per 8 elements 11 bits of codebook index (8 in qs, 3 in qh); per 32 a 3-bit scale and the sign of the shift (bits
/// 12…15 of qh).
struct [[gnu::packed]] BlockIQ1_S {
  static constexpr TensorType kType = TensorType::IQ1_S;
  static constexpr uint32_t kElems = 256;
  uint16_t d;
  uint8_t qs[32];
  uint16_t qh[8];
};
static_assert(sizeof(BlockIQ1_S) == 50);

/// As IQ1_S, with a shift sign for 8 and a 3-bit scale for 16 elements; the f16 scale is spread over the top nibbles of
/// scales.
struct [[gnu::packed]] BlockIQ1_M {
  static constexpr TensorType kType = TensorType::IQ1_M;
  static constexpr uint32_t kElems = 256;
  uint8_t qs[32];
  uint8_t qh[16];
  uint16_t scales[4];
};
static_assert(sizeof(BlockIQ1_M) == 56);

/// 4-bit index into 16 fixed levels.
struct [[gnu::packed]] BlockIQ4_NL {
  static constexpr TensorType kType = TensorType::IQ4_NL;
  static constexpr uint32_t kElems = 32;
  uint16_t d;
  uint8_t qs[16];
};
static_assert(sizeof(BlockIQ4_NL) == 18);

/// As IQ4_NL with 6-bit scales about 32 for groups of 32.
struct [[gnu::packed]] BlockIQ4_XS {
  static constexpr TensorType kType = TensorType::IQ4_XS;
  static constexpr uint32_t kElems = 256;
  uint16_t d;
  uint16_t scales_h;
  uint8_t scales_l[4];
  uint8_t qs[128];
};
static_assert(sizeof(BlockIQ4_XS) == 136);

/// Ternary, five digits a byte (qs), the last sixteen four a byte (qh).
struct [[gnu::packed]] BlockTQ1_0 {
  static constexpr TensorType kType = TensorType::TQ1_0;
  static constexpr uint32_t kElems = 256;
  uint8_t qs[48];
  uint8_t qh[4];
  uint16_t d;
};
static_assert(sizeof(BlockTQ1_0) == 54);

/// Ternary, two bits an element.
struct [[gnu::packed]] BlockTQ2_0 {
  static constexpr TensorType kType = TensorType::TQ2_0;
  static constexpr uint32_t kElems = 256;
  uint8_t qs[64];
  uint16_t d;
};
static_assert(sizeof(BlockTQ2_0) == 66);

/// OCP microscaling: FP4 E2M1 codes with one E8M0 (power of two) scale.
struct [[gnu::packed]] BlockMXFP4 {
  static constexpr TensorType kType = TensorType::MXFP4;
  static constexpr uint32_t kElems = 32;
  uint8_t e;
  uint8_t qs[16];
};
static_assert(sizeof(BlockMXFP4) == 17);

/// FP4 E2M1 codes with an unsigned FP8 scale for each 16.
struct [[gnu::packed]] BlockNVFP4 {
  static constexpr TensorType kType = TensorType::NVFP4;
  static constexpr uint32_t kElems = 64;
  uint8_t d[4];
  uint8_t qs[32];
};
static_assert(sizeof(BlockNVFP4) == 36);

/// One bit an element.
struct [[gnu::packed]] BlockQ1_0 {
  static constexpr TensorType kType = TensorType::Q1_0;
  static constexpr uint32_t kElems = 128;
  uint16_t d;
  uint8_t qs[16];
};
static_assert(sizeof(BlockQ1_0) == 18);

/// Two bits an element.
struct [[gnu::packed]] BlockQ2_0 {
  static constexpr TensorType kType = TensorType::Q2_0;
  static constexpr uint32_t kElems = 64;
  uint16_t d;
  uint8_t qs[16];
};
static_assert(sizeof(BlockQ2_0) == 18);

template <typename... Blocks>
struct BlockList {};

/// The formats that weights may have: decode_row and the matmuls know each.
using WeightBlocks = BlockList<
    BlockQ4_0, BlockQ4_1, BlockQ5_0, BlockQ5_1, BlockQ8_0, BlockQ2_K, BlockQ3_K, BlockQ4_K, BlockQ5_K, BlockQ6_K, BlockIQ2_XXS,
    BlockIQ2_XS, BlockIQ2_S, BlockIQ3_XXS, BlockIQ3_S, BlockIQ1_S, BlockIQ1_M, BlockIQ4_NL, BlockIQ4_XS, BlockTQ1_0, BlockTQ2_0,
    BlockMXFP4>;

/// Calls f<Block>() with the block of a format of the list. Returns false if the type is not in it.
template <typename... Blocks, typename F>
bool with_block(BlockList<Blocks...>, TensorType type, F&& f) {
  return ((type == Blocks::kType && (f.template operator()<Blocks>(), true)) || ...);
}

}  // namespace quern
