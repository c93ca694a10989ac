// Blocks of 32 elements to a panel: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, IQ4_NL and MXFP4.
#include "quant/codebooks.h"

namespace quern::kernels::QUERN_ISA {
namespace {

/// 16 bytes of nibbles: elements 0…15 low, 16…31 high; high_bits(quad, nibbles) makes them codes.
template <typename Output, typename HighBits>
[[gnu::always_inline]] inline void unpack_nibbles(Rows rows, size_t offset, Output& out, size_t group, HighBits high_bits) {
  const Four packed = load_quads(rows, offset);
  unroll<4>([&](auto i) __attribute__((always_inline)) {
    out.set_codes(group, i, high_bits(i, low_nibbles(packed.v[i])));
    out.set_codes(group, i + 4, high_bits(std::integral_constant<int, i + 4>(), high_nibbles(packed.v[i])));
  });
}

template <>
struct Unpack<TensorType::Q4_0> {
  template <typename Output>
  [[gnu::always_inline]] static void unpack(Rows rows, Output& out, size_t group) {
    unpack_nibbles(rows, offsetof(BlockQ4_0, qs), out, group, [](auto, Bytes q) __attribute__((always_inline)) { return q; });
    out.set_d(group, f16_low(load_head(rows, offsetof(BlockQ4_0, d))));
    out.group_done(group);
  }
};

template <>
struct Unpack<TensorType::Q4_1> {
  template <typename Output>
  [[gnu::always_inline]] static void unpack(Rows rows, Output& out, size_t group) {
    unpack_nibbles(rows, offsetof(BlockQ4_1, qs), out, group, [](auto, Bytes q) __attribute__((always_inline)) { return q; });
    const Bytes factors = load_head(rows, offsetof(BlockQ4_1, d));
    out.set_d(group, f16_low(factors));
    out.set_m(group, f16_low(shift_right<16>(factors)));
    out.group_done(group);
  }
};

/// codes + 16 where bit 4·quad + byte of the row's dword is set.
template <int kQuad>
inline Bytes add_fifth_bits(Bytes codes, Bytes qh) { return add_where_bit(codes, quad_bits<kQuad>(qh), quad_mask<kQuad>(), set1_byte(16)); }

template <>
struct Unpack<TensorType::Q5_0> {
  template <typename Output>
  [[gnu::always_inline]] static void unpack(Rows rows, Output& out, size_t group) {
    const Four head = load_quads(rows, offsetof(BlockQ5_0, d));  // d and the bits, over the border of two dwords
    const Bytes qh = over_border(head.v[0], head.v[1]);
    unpack_nibbles(rows, offsetof(BlockQ5_0, qs), out, group, [&](auto quad, Bytes q) __attribute__((always_inline)) { return add_fifth_bits<quad>(q, qh); });
    out.set_d(group, f16_low(head.v[0]));
    out.group_done(group);
  }
};

template <>
struct Unpack<TensorType::Q5_1> {
  template <typename Output>
  [[gnu::always_inline]] static void unpack(Rows rows, Output& out, size_t group) {
    const Four head = load_quads(rows, offsetof(BlockQ5_1, d));  // d and m, then the bits
    unpack_nibbles(rows, offsetof(BlockQ5_1, qs), out, group, [&](auto quad, Bytes q) __attribute__((always_inline)) { return add_fifth_bits<quad>(q, head.v[1]); });
    out.set_d(group, f16_low(head.v[0]));
    out.set_m(group, f16_low(shift_right<16>(head.v[0])));
    out.group_done(group);
  }
};

template <>
struct Unpack<TensorType::Q8_0> {
  template <typename Output>
  [[gnu::always_inline]] static void unpack(Rows rows, Output& out, size_t group) {
    unroll<2>([&](auto half) __attribute__((always_inline)) {
      const Four q = load_quads(rows, offsetof(BlockQ8_0, qs) + 16 * half);
      unroll<4>([&](auto i) __attribute__((always_inline)) { out.set_codes(group, 4 * half + i, kWideSigned ? q.v[i] : bit_xor(q.v[i], set1_byte(0x80))); });
    });
    out.set_d(group, f16_low(load_head(rows, offsetof(BlockQ8_0, d))));
    out.group_done(group);
  }
};

template <>
struct Unpack<TensorType::IQ4_NL> {
  template <typename Output>
  [[gnu::always_inline]] static void unpack(Rows rows, Output& out, size_t group) {
    const Bytes levels = kWideSigned ? set1_16(kIq4Levels) : bit_xor(set1_16(kIq4Levels), set1_byte(0x80));
    unpack_nibbles(rows, offsetof(BlockIQ4_NL, qs), out, group, [&](auto, Bytes q) __attribute__((always_inline)) { return shuffle_bytes(levels, q); });
    out.set_d(group, f16_low(load_head(rows, offsetof(BlockIQ4_NL, d))));
    out.group_done(group);
  }
};

template <>
struct Unpack<TensorType::MXFP4> {
  template <typename Output>
  [[gnu::always_inline]] static void unpack(Rows rows, Output& out, size_t group) {
    alignas(16) static constexpr std::array<int8_t, 16> kCodes = [] {
      std::array<int8_t, 16> codes{};
      for (size_t i = 0; i < 16; ++i) codes[i] = int8_t(kFp4Levels[i] + group_form_of(TensorType::MXFP4).offset);
      return codes;
    }();
    const Bytes codes = set1_16(kCodes.data());
    unpack_nibbles(rows, offsetof(BlockMXFP4, qs), out, group, [&](auto, Bytes q) __attribute__((always_inline)) { return shuffle_bytes(codes, q); });
    out.set_d(group, half_exponent(zero_extend_byte<0>(load_head(rows, offsetof(BlockMXFP4, e)))));
    out.group_done(group);
  }
};

}  // namespace
}  // namespace quern::kernels::QUERN_ISA
