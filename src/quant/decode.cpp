// From type to decoder. Blocks are copied out before they are read, so `src` needs no alignment.
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
    default:
      break;
  }
  const bool known = with_block(WeightBlocks(), type, [&]<typename Block>() { decode_blocks<Block>(src, dst, n_elems); });
  QUERN_CHECK(known, "decode_row of {}: ask can_decode first", format_info(type).name);
}

}  // namespace quern
