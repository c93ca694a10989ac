// The fixed tables that the IQ and FP4 formats index. Element j of an entry is byte j, so that a kernel may load an
// entry as one 32- or 64-bit word. IQ2 and IQ3 entries are magnitudes (signs are stored apart); IQ1 entries are −1,
// 0, 1.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

namespace quern {

template <size_t kEntries, size_t kWidth>
using Codebook = std::array<std::array<int8_t, kWidth>, kEntries>;

extern const Codebook<256, 8> kIq2XxsGrid;  ///< levels 8, 25, 43
extern const Codebook<512, 8> kIq2XsGrid;
extern const Codebook<1024, 8> kIq2SGrid;
extern const Codebook<256, 4> kIq3XxsGrid;  ///< levels 4, 12, 20, 28, 36, 44, 52, 62
extern const Codebook<512, 4> kIq3SGrid;    ///< levels 1, 3, … 15
extern const Codebook<2048, 8> kIq1Grid;

/// A grid of 8 elements for kernels that look up many rows at once. Byte j of an entry holds the ranks of element j (low nibble) and of
/// element j + 4 (high nibble): 0, 1, 2 for levels 8, 25, 43 or −1, 0, 1.
template <size_t kEntries>
using Ranks = std::array<uint32_t, kEntries>;

extern const Ranks<256> kIq2XxsRanks;
extern const Ranks<512> kIq2XsRanks;
extern const Ranks<1024> kIq2SRanks;
extern const Ranks<2048> kIq1Ranks;

/// Eight sign bits from a 7-bit index: bit 7 makes their number even.
constexpr uint8_t even_signs(uint32_t index) {
  return uint8_t((index & 127) | uint32_t(__builtin_parity(index & 127)) << 7);
}

/// The levels of IQ2; the rest is padding, so that a kernel may load them as 16 bytes.
inline constexpr std::array<int8_t, 16> kIq2Levels = {8, 25, 43};
/// The 16 levels of IQ4_NL and IQ4_XS.
inline constexpr int8_t kIq4Levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
/// FP4 E2M1 values, doubled to be integers (the block scale is halved for it).
inline constexpr int8_t kFp4Levels[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

}  // namespace quern
