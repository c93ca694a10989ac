// The table of formats. Block sizes are those of the packed structs in blocks.h, so the two cannot disagree.
#include "quant/format.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "quant/blocks.h"

namespace quern {
namespace {

template <typename Block>
constexpr FormatInfo block_format(std::string_view name, bool can_decode = true) {
  return {Block::kType, name, Block::kElems, sizeof(Block), true, can_decode};
}

constexpr FormatInfo plain_format(TensorType type, std::string_view name, uint32_t n_bytes, bool can_decode) {
  return {type, name, 1, n_bytes, false, can_decode};
}

using enum TensorType;
// Q8_1 and Q8_K are activation formats that no weight file holds; NVFP4, Q1_0 and Q2_0 are known by size only.
constexpr std::array kFormats = {
    plain_format(F32, "F32", 4, true),
    plain_format(F16, "F16", 2, true),
    block_format<BlockQ4_0>("Q4_0"),
    block_format<BlockQ4_1>("Q4_1"),
    block_format<BlockQ5_0>("Q5_0"),
    block_format<BlockQ5_1>("Q5_1"),
    block_format<BlockQ8_0>("Q8_0"),
    block_format<BlockQ8_1>("Q8_1", false),
    block_format<BlockQ2_K>("Q2_K"),
    block_format<BlockQ3_K>("Q3_K"),
    block_format<BlockQ4_K>("Q4_K"),
    block_format<BlockQ5_K>("Q5_K"),
    block_format<BlockQ6_K>("Q6_K"),
    block_format<BlockQ8_K>("Q8_K", false),
    block_format<BlockIQ2_XXS>("IQ2_XXS"),
    block_format<BlockIQ2_XS>("IQ2_XS"),
    block_format<BlockIQ3_XXS>("IQ3_XXS"),
    block_format<BlockIQ1_S>("IQ1_S"),
    block_format<BlockIQ4_NL>("IQ4_NL"),
    block_format<BlockIQ3_S>("IQ3_S"),
    block_format<BlockIQ2_S>("IQ2_S"),
    block_format<BlockIQ4_XS>("IQ4_XS"),
    plain_format(I8, "I8", 1, false),
    plain_format(I16, "I16", 2, false),
    plain_format(I32, "I32", 4, false),
    plain_format(I64, "I64", 8, false),
    plain_format(F64, "F64", 8, false),
    block_format<BlockIQ1_M>("IQ1_M"),
    plain_format(BF16, "BF16", 2, true),
    block_format<BlockTQ1_0>("TQ1_0"),
    block_format<BlockTQ2_0>("TQ2_0"),
    block_format<BlockMXFP4>("MXFP4"),
    block_format<BlockNVFP4>("NVFP4", false),
    block_format<BlockQ1_0>("Q1_0", false),
    block_format<BlockQ2_0>("Q2_0", false),
};

struct RemovedFormat {
  uint32_t type_id;
  std::string_view name;
};
constexpr RemovedFormat kRemoved[] = {
    {4, "Q4_2"},      {5, "Q4_3"},        {31, "Q4_0_4_4"},   {32, "Q4_0_4_8"},
    {33, "Q4_0_8_8"}, {36, "IQ4_NL_4_4"}, {37, "IQ4_NL_4_8"}, {38, "IQ4_NL_8_8"},
};

}  // namespace

const FormatInfo* find_format(uint32_t type_id) {
  const auto at = std::lower_bound(kFormats.begin(), kFormats.end(), type_id,
                                   [](const FormatInfo& f, uint32_t id) { return uint32_t(f.type) < id; });
  return at != kFormats.end() && uint32_t(at->type) == type_id ? &*at : nullptr;
}

const FormatInfo& format_info(TensorType type) {
  const FormatInfo* info = find_format(uint32_t(type));
  QUERN_CHECK(info, "type id {}", uint32_t(type));
  return *info;
}

std::string_view removed_format_name(uint32_t type_id) {
  for (const RemovedFormat& removed : kRemoved) {
    if (removed.type_id == type_id) return removed.name;
  }
  return {};
}

std::span<const FormatInfo> all_formats() {
  return kFormats;
}

}  // namespace quern
