// The switch from type to decoder. Blocks are copied out before they are read, so `src` needs no alignment.
#include "quant/decode.h"

#include <cstring>

#include "base/check.h"
#include "base/fp.h"
#include "quant/decode_block.h"

namespace quern {
namespace {

template <typename Block>
void decode_blocks(const std::byte* src, float* dst, size_t n_elems) {
  for (size_t i = 0; i < n_elems; i += Block::kElems, src += sizeof(Block)) {
    Block block;
    std::memcpy(&block, src, sizeof(Block));
    decode_block(block, dst + i);
  }
}

template <float (*kConvert)(uint16_t)>
void decode_halves(const std::byte* src, float* dst, size_t n_elems) {
  for (size_t i = 0; i < n_elems; ++i) {
    uint16_t bits;
    std::memcpy(&bits, src + 2 * i, sizeof(bits));
    dst[i] = kConvert(bits);
  }
}

}  // namespace

void decode_row(TensorType type, const std::byte* src, float* dst, size_t n_elems) {
  switch (type) {
    case TensorType::F32:
      std::memcpy(dst, src, n_elems * sizeof(float));
      return;
    case TensorType::F16:
      return decode_halves<f16_to_f32>(src, dst, n_elems);
    case TensorType::BF16:
      return decode_halves<bf16_to_f32>(src, dst, n_elems);
    case TensorType::Q4_0:
      return decode_blocks<BlockQ4_0>(src, dst, n_elems);
    case TensorType::Q4_1:
      return decode_blocks<BlockQ4_1>(src, dst, n_elems);
    case TensorType::Q5_0:
      return decode_blocks<BlockQ5_0>(src, dst, n_elems);
    case TensorType::Q5_1:
      return decode_blocks<BlockQ5_1>(src, dst, n_elems);
    case TensorType::Q8_0:
      return decode_blocks<BlockQ8_0>(src, dst, n_elems);
    case TensorType::Q2_K:
      return decode_blocks<BlockQ2_K>(src, dst, n_elems);
    case TensorType::Q3_K:
      return decode_blocks<BlockQ3_K>(src, dst, n_elems);
    case TensorType::Q4_K:
      return decode_blocks<BlockQ4_K>(src, dst, n_elems);
    case TensorType::Q5_K:
      return decode_blocks<BlockQ5_K>(src, dst, n_elems);
    case TensorType::Q6_K:
      return decode_blocks<BlockQ6_K>(src, dst, n_elems);
    case TensorType::IQ1_S:
      return decode_blocks<BlockIQ1_S>(src, dst, n_elems);
    case TensorType::IQ1_M:
      return decode_blocks<BlockIQ1_M>(src, dst, n_elems);
    case TensorType::IQ2_XXS:
      return decode_blocks<BlockIQ2_XXS>(src, dst, n_elems);
    case TensorType::IQ2_XS:
      return decode_blocks<BlockIQ2_XS>(src, dst, n_elems);
    case TensorType::IQ2_S:
      return decode_blocks<BlockIQ2_S>(src, dst, n_elems);
    case TensorType::IQ3_XXS:
      return decode_blocks<BlockIQ3_XXS>(src, dst, n_elems);
    case TensorType::IQ3_S:
      return decode_blocks<BlockIQ3_S>(src, dst, n_elems);
    case TensorType::IQ4_NL:
      return decode_blocks<BlockIQ4_NL>(src, dst, n_elems);
    case TensorType::IQ4_XS:
      return decode_blocks<BlockIQ4_XS>(src, dst, n_elems);
    case TensorType::TQ1_0:
      return decode_blocks<BlockTQ1_0>(src, dst, n_elems);
    case TensorType::TQ2_0:
      return decode_blocks<BlockTQ2_0>(src, dst, n_elems);
    case TensorType::MXFP4:
      return decode_blocks<BlockMXFP4>(src, dst, n_elems);
    default:
      break;
  }
  QUERN_CHECK(false, "decode_row of {}: ask can_decode first", format_info(type).name);
}

}  // namespace quern
