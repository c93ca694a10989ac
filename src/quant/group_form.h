// The integer form of every quantized format: what a matmul with int8 activations multiplies. A group is 32 elements,
//   element = D · s · (code − offset) + M · m,
// with unsigned codes, integer sub-scales s and minimums m for each half of 16, and the block's own float factors D and M.
// It equals decode_row up to rounding; the kernels' results are defined by this form (kernels/kernels.h). Powers of two that a
// format hides in its scales or levels are folded into D.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "quant/blocks.h"
#include "quant/format.h"

namespace quern {

inline constexpr size_t kGroupElems = 32;

/// One group of a row. s and m are 1 where the format has no sub-scales; m and M are meaningless where it has no minimums.
struct WeightGroup {
  uint8_t codes[kGroupElems];
  int16_t s[2];
  int16_t m[2];
  float D;
  float M;
};

/// What can be said of a format's groups without looking at data. One row a format.
struct GroupForm {
  TensorType type;
  int max_code;         ///< codes are 0 … max_code
  int offset;
  int max_scale;        ///< |s| ≤ max_scale
  int max_min;          ///< 0 ≤ m ≤ max_min; 0: the format has no minimums
  bool has_half_scales; ///< s[0] and s[1] (m[0] and m[1]) may differ
  bool has_block_factors; ///< D and M are the same in all groups of a block
  size_t block_elems;
  size_t block_bytes;

  constexpr bool has_mins() const { return max_min > 0; }
  constexpr int max_value() const { return max_code - offset > offset ? max_code - offset : offset; }
};

template <typename Block>
constexpr GroupForm group_form_row(int max_code, int offset, int max_scale, int max_min, bool has_half_scales) {
  return {Block::kType, max_code, offset, max_scale, max_min, has_half_scales, Block::kElems > kGroupElems, Block::kElems, sizeof(Block)};
}

inline constexpr std::array kGroupForms = {
    //                           codes off. s    m   halves
    group_form_row<BlockQ4_0>   (15,  8,   1,   0,  false),
    group_form_row<BlockQ4_1>   (15,  0,   1,   1,  false),
    group_form_row<BlockQ5_0>   (31,  16,  1,   0,  false),
    group_form_row<BlockQ5_1>   (31,  0,   1,   1,  false),
    group_form_row<BlockQ8_0>   (255, 128, 1,   0,  false),
    group_form_row<BlockQ2_K>   (3,   0,   15,  15, true),
    group_form_row<BlockQ3_K>   (7,   4,   32,  0,  true),
    group_form_row<BlockQ4_K>   (15,  0,   63,  63, false),
    group_form_row<BlockQ5_K>   (31,  0,   63,  63, false),
    group_form_row<BlockQ6_K>   (63,  32,  128, 0,  true),
    group_form_row<BlockIQ2_XXS>(86,  43,  31,  0,  false),   // levels ±8 ±25 ±43, s = 2·ls + 1, D = d/8
    group_form_row<BlockIQ2_XS> (86,  43,  31,  0,  true),
    group_form_row<BlockIQ2_S>  (86,  43,  31,  0,  true),
    group_form_row<BlockIQ3_XXS>(124, 62,  31,  0,  false),   // levels ±4 … ±62, s = 2·ls + 1, D = d/4
    group_form_row<BlockIQ3_S>  (30,  15,  31,  0,  false),
    group_form_row<BlockIQ1_S>  (18,  9,   15,  0,  false),   // levels 8·g ± 1, D = d/8
    group_form_row<BlockIQ1_M>  (18,  9,   15,  0,  true),
    group_form_row<BlockIQ4_NL> (241, 128, 1,   0,  false),
    group_form_row<BlockIQ4_XS> (241, 128, 32,  0,  false),
    group_form_row<BlockTQ1_0>  (2,   1,   1,   0,  false),
    group_form_row<BlockTQ2_0>  (3,   1,   1,   0,  false),
    group_form_row<BlockMXFP4>  (24,  12,  1,   0,  false),  // doubled FP4 levels, D = half the block's scale
};

/// The sums of a group must be exact as float: |I| ≤ 32·127·max|s|·max|code − offset| < 2^24, and the same for J. D·s and M·m are exact
/// too where they are formed: D and M have the 11 bits of an f16, s and m at most 6.
constexpr bool group_sums_are_exact(const GroupForm& form) {
  return int64_t(kGroupElems) * 127 * form.max_scale * form.max_value() < (1 << 24) && int64_t(kGroupElems) * 127 * form.max_min < (1 << 24);
}
constexpr bool all_group_sums_are_exact() {
  for (const GroupForm& form : kGroupForms) {
    if (!group_sums_are_exact(form)) return false;
  }
  return true;
}
static_assert(all_group_sums_are_exact());

/// The row of a type, or nullptr when it has no integer form (float types, and what cannot be decoded).
const GroupForm* find_group_form(TensorType type);
/// The row of a type that has one, for code that is compiled per format.
constexpr GroupForm group_form_of(TensorType type) {
  for (const GroupForm& form : kGroupForms) {
    if (form.type == type) return form;
  }
  throw "the type has no integer form";
}

/// Writes block_elems / 32 groups of one block. The type must have a group form; `block` needs no alignment.
void unpack_groups(TensorType type, const std::byte* block, WeightGroup* groups);

}  // namespace quern
