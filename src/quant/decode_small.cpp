// Decoding of the ternary formats and of FP4 with a power-of-two scale.
#include <bit>

#include "base/fp.h"
#include "quant/codebooks.h"
#include "quant/decode_block.h"

namespace quern {

int tq1_digit(uint8_t byte, int n) {
  // The byte is a base-3 fraction of 256: shifting by 3^n (mod 256) leaves digit n on top, and times 3/256 reads it.
  constexpr uint8_t kPowers[5] = {1, 3, 9, 27, 81};
  return uint8_t(byte * kPowers[n]) * 3 >> 8;
}

void decode_block(const BlockTQ1_0& block, float* dst) {
  const float d = f16_to_f32(block.d);
  // Digit n of a run of bytes is elements [n·run, (n+1)·run): runs of 32 and 16 bytes with five digits, then 4 with
  // four.
  const auto run = [&](const uint8_t* bytes, int n_bytes, int n_digits) {
    for (int n = 0; n < n_digits; ++n) {
      for (int j = 0; j < n_bytes; ++j) *dst++ = d * float(tq1_digit(bytes[j], n) - 1);
    }
  };
  run(block.qs, 32, 5);
  run(block.qs + 32, 16, 5);
  run(block.qh, 4, 4);
}

void decode_block(const BlockTQ2_0& block, float* dst) {
  const float d = f16_to_f32(block.d);
  for (int i = 0; i < 256; ++i) {
    const int q = block.qs[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3;
    dst[i] = d * float(q - 1);
  }
}

float e8m0_half(uint8_t e) {
  // 2^(e-128): half of the scale that the byte means, because the levels are doubled. The two smallest are subnormal.
  return std::bit_cast<float>(e < 2 ? uint32_t(0x00200000) << e : uint32_t(e - 1) << 23);
}

void decode_block(const BlockMXFP4& block, float* dst) {
  const float d = e8m0_half(block.e);
  for (int j = 0; j < 16; ++j) {
    dst[j] = d * float(kFp4Levels[block.qs[j] & 15]);
    dst[j + 16] = d * float(kFp4Levels[block.qs[j] >> 4]);
  }
}

}  // namespace quern
