// Random rows of every quantized format: random bits in all integer fields, finite factors of a chosen kind.
#pragma once
#include <cstring>
#include <vector>

#include "base/fp.h"
#include "base/rng.h"
#include "quant/blocks.h"
#include "quant/group_form.h"

namespace quern::test {

enum class Factors {
  kUsual,    ///< ±0.01 … ±0.1
  kZero,     ///< all zero: products vanish
  kLargest,  ///< ±65504, the f16 limit
  kSmallest  ///< f16 subnormals
};

inline uint16_t random_factor(Rng& rng, Factors kind) {
  const uint16_t sign = uint16_t(rng.below(2) << 15);
  switch (kind) {
    case Factors::kUsual: return uint16_t(sign | f32_to_f16(rng.uniform(0.01f, 0.1f)));
    case Factors::kZero: return sign;
    case Factors::kLargest: return uint16_t(sign | 0x7bff);
    case Factors::kSmallest: return uint16_t(sign | (1 + rng.below(0x3ff)));
  }
  return 0;
}

/// Where the f16 factors of a format's block lie.
inline std::vector<size_t> factor_offsets(TensorType type) {
  switch (type) {
    case TensorType::Q4_1: return {offsetof(BlockQ4_1, d), offsetof(BlockQ4_1, m)};
    case TensorType::Q5_1: return {offsetof(BlockQ5_1, d), offsetof(BlockQ5_1, m)};
    case TensorType::Q2_K: return {offsetof(BlockQ2_K, d), offsetof(BlockQ2_K, dmin)};
    case TensorType::Q3_K: return {offsetof(BlockQ3_K, d)};
    case TensorType::Q4_K: return {offsetof(BlockQ4_K, d), offsetof(BlockQ4_K, dmin)};
    case TensorType::Q5_K: return {offsetof(BlockQ5_K, d), offsetof(BlockQ5_K, dmin)};
    case TensorType::Q6_K: return {offsetof(BlockQ6_K, d)};
    case TensorType::TQ1_0: return {offsetof(BlockTQ1_0, d)};
    case TensorType::TQ2_0: return {offsetof(BlockTQ2_0, d)};
    case TensorType::IQ1_M: case TensorType::MXFP4: return {};
    default: return {0};  // all others begin with d
  }
}

/// Rewrites the factors of one block.
inline void set_factors(TensorType type, std::byte* block, Rng& rng, Factors kind) {
  for (const size_t offset : factor_offsets(type)) {
    const uint16_t bits = random_factor(rng, kind);
    std::memcpy(block + offset, &bits, sizeof bits);
  }
  if (type == TensorType::MXFP4) {
    const uint8_t exponent[] = {uint8_t(120 + rng.below(8)), 0, 143, 1};  // 2^-128 stands for zero: the format has none
    block[0] = std::byte(exponent[int(kind)]);
  }
  if (type == TensorType::IQ1_M) {  // the f16 is spread over the top nibbles of the four scales
    BlockIQ1_M b;
    std::memcpy(&b, block, sizeof b);
    const uint16_t bits = random_factor(rng, kind);
    for (int i = 0; i < 4; ++i) b.scales[i] = uint16_t((b.scales[i] & 0xfff) | (bits >> (4 * i) & 15) << 12);
    std::memcpy(block, &b, sizeof b);
  }
}

/// n_rows rows, one after another. fill < 0: random bytes; else every byte that is not a factor is `fill`.
inline std::vector<std::byte> random_weights(TensorType type, size_t n_rows, size_t n_cols, Rng& rng, Factors kind = Factors::kUsual, int fill = -1) {
  const FormatInfo& format = format_info(type);
  std::vector<std::byte> bytes(n_rows * row_bytes(type, n_cols));
  for (std::byte& b : bytes) b = std::byte(fill < 0 ? rng.below(256) : uint64_t(fill));
  for (size_t at = 0; at < bytes.size(); at += format.block_bytes) set_factors(type, bytes.data() + at, rng, kind);
  return bytes;
}

}  // namespace quern::test
