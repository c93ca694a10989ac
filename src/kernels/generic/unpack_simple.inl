// Blocks of 32 elements to a panel: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0 and IQ4_NL.
#include "quant/codebooks.h"

namespace quern::kernels::QUERN_ISA {
namespace {

/// 16 bytes of nibbles: elements 0…15 low, 16…31 high; high_bits(quad, nibbles) makes them codes.
template <typename HighBits>
inline void unpack_nibbles(Rows rows, size_t offset, Part part, size_t group, HighBits high_bits) {
  const Four packed = load_quads(rows, offset);
  unroll<4>([&](auto i) __attribute__((always_inline)) {
    part.store_codes(group, i, high_bits(i, low_nibbles(packed.v[i])));
    part.store_codes(group, i + 4, high_bits(std::integral_constant<int, i + 4>(), high_nibbles(packed.v[i])));
  });
}

template <>
struct Unpack<TensorType::Q4_0> {
  static void unpack(Rows rows, Part part, size_t group) {
    unpack_nibbles(rows, offsetof(BlockQ4_0, qs), part, group, [](auto, Bytes q) { return q; });
    part.store_d(group, load_dword(rows, offsetof(BlockQ4_0, d)));
  }
};

template <>
struct Unpack<TensorType::Q4_1> {
  static void unpack(Rows rows, Part part, size_t group) {
    unpack_nibbles(rows, offsetof(BlockQ4_1, qs), part, group, [](auto, Bytes q) { return q; });
    const Bytes factors = load_dword(rows, offsetof(BlockQ4_1, d));
    part.store_d(group, factors);
    part.store_m(group, shift_right<16>(factors));
  }
};

/// 16 where bit 4·quad + byte of the row's dword is set.
template <int kQuad>
inline Bytes fifth_bits(Bytes qh) {
  const Bytes bits = shuffle_bytes(qh, within_dwords<kQuad / 2, kQuad / 2, kQuad / 2, kQuad / 2>());
  return where_bit(bits, set1_dword(kQuad % 2 ? 0x80402010u : 0x08040201u), set1_byte(16));
}

template <>
struct Unpack<TensorType::Q5_0> {
  static void unpack(Rows rows, Part part, size_t group) {
    const Bytes qh = load_dword(rows, offsetof(BlockQ5_0, qh));
    unpack_nibbles(rows, offsetof(BlockQ5_0, qs), part, group, [&](auto quad, Bytes q) { return bit_or(q, fifth_bits<quad>(qh)); });
    part.store_d(group, load_dword(rows, offsetof(BlockQ5_0, d)));
  }
};

template <>
struct Unpack<TensorType::Q5_1> {
  static void unpack(Rows rows, Part part, size_t group) {
    const Bytes qh = load_dword(rows, offsetof(BlockQ5_1, qh));
    unpack_nibbles(rows, offsetof(BlockQ5_1, qs), part, group, [&](auto quad, Bytes q) { return bit_or(q, fifth_bits<quad>(qh)); });
    const Bytes factors = load_dword(rows, offsetof(BlockQ5_1, d));
    part.store_d(group, factors);
    part.store_m(group, shift_right<16>(factors));
  }
};

template <>
struct Unpack<TensorType::Q8_0> {
  static void unpack(Rows rows, Part part, size_t group) {
    for (size_t half = 0; half < 2; ++half) {
      Four q = load_quads(rows, offsetof(BlockQ8_0, qs) + 16 * half);
      if (!kWideSigned) for (Bytes& v : q.v) v = bit_xor(v, set1_byte(0x80));
      part.store_quads(group, 4 * half, q);
    }
    part.store_d(group, load_dword(rows, offsetof(BlockQ8_0, d)));
  }
};

template <>
struct Unpack<TensorType::IQ4_NL> {
  static void unpack(Rows rows, Part part, size_t group) {
    const Bytes levels = kWideSigned ? set1_16(kIq4Levels) : bit_xor(set1_16(kIq4Levels), set1_byte(0x80));
    unpack_nibbles(rows, offsetof(BlockIQ4_NL, qs), part, group, [&](auto, Bytes q) { return shuffle_bytes(levels, q); });
    part.store_d(group, load_dword(rows, offsetof(BlockIQ4_NL, d)));
  }
};

}  // namespace
}  // namespace quern::kernels::QUERN_ISA
