// Formats whose codes come from large tables, IQ1 to IQ3, and the base-3 digits of TQ1_0. The entries are looked up row by row, which no
// vector instruction does faster; signs, shifts and scales are then applied to the rows side by side. Where bits lie is said in
// quant/decode_iq.cpp.
#include "quant/codebooks.h"

namespace quern::kernels::QUERN_ISA {
namespace {

/// The entries of one block of every row, not yet signed.
struct GridRows {
  alignas(64) int8_t elems[kPartRows][256];

  /// Entry k of each group g is grid[index_of(block, g, k)]. One group after the other: GCC would compute all indices of the block
  /// first and spill them.
  template <typename Block, size_t kEntries, size_t kWidth, typename IndexOf>
  [[gnu::always_inline]] void look_up(Rows rows, const Codebook<kEntries, kWidth>& grid, IndexOf index_of) {
    for (size_t r = 0; r < kPartRows; ++r) {
      const Block& block = *reinterpret_cast<const Block*>(rows.base + r * rows.stride);  // packed, so without alignment
#pragma GCC unroll 1
      for (size_t g = 0; g < 8; ++g) {
        unroll<int(32 / kWidth)>([&](auto k) __attribute__((always_inline)) { std::memcpy(elems[r] + 32 * g + kWidth * k, &grid[index_of(block, g, size_t(k))], kWidth); });
      }
    }
  }
  /// Elements 16·sixteenth … + 15 as four quads.
  Four quads(size_t sixteenth) const { return load_quads({reinterpret_cast<const std::byte*>(elems[0]) + 16 * sixteenth, sizeof elems[0]}, 0); }
};

/// A group's elements as codes kOffset ± entry; bit i of `signs` (a dword a row) is the sign of element i.
template <int kOffset, typename Output>
[[gnu::always_inline]] inline void set_signed(Output& out, size_t group, const GridRows& rows, Bytes signs) {
  const Four low = rows.quads(2 * group), high = rows.quads(2 * group + 1);
  unroll<8>([&](auto q) __attribute__((always_inline)) {
    out.set_codes(group, q, about(set1_byte(kOffset), q < 4 ? low.v[q % 4] : high.v[q % 4], quad_bits<q>(signs), quad_mask<q>()));
  });
}

/// Four 7-bit sign indices, one a byte, with the eighth bit that makes the number of signs even.
inline Bytes even_signs(Bytes seven) {
  static constexpr int8_t kOdd[16] = {0, -128, -128, 0, -128, 0, 0, -128, -128, 0, 0, -128, 0, -128, -128, 0};
  return bit_or(seven, shuffle_bytes(set1_16(kOdd), low_nibbles(bit_xor(seven, high_nibbles(seven)))));
}
/// The same from a dword of four indices side by side.
inline Bytes packed_signs(Bytes rest) {
  const Bytes low = bit_or(bit_and(rest, set1_dword(0x7f)), bit_and(shift_left<1>(rest), set1_dword(0x7f00)));
  const Bytes high = bit_or(bit_and(shift_left<2>(rest), set1_dword(0x7f0000)), bit_and(shift_left<3>(rest), set1_dword(0x7f000000)));
  return even_signs(bit_or(low, high));
}
/// 2n + 1 of nibbles n in bytes.
inline Bytes odd_scales(Bytes nibbles) { return bit_or(shift_left<1>(nibbles), set1_byte(1)); }
/// 2n + 1 of the top nibble of dwords.
inline Bytes top_scale(Bytes rest) { return bit_or(bit_and(shift_right<27>(rest), set1_dword(30)), set1_dword(1)); }

template <>
struct Unpack<TensorType::IQ2_XXS> {
  template <typename Output>
  [[gnu::always_inline]] static void unpack(Rows rows, Output& out, size_t) {
    using Block = BlockIQ2_XXS;
    GridRows grid;
    grid.look_up<Block>(rows, kIq2XxsGrid, [](const Block& b, size_t g, size_t k) { return b.qs[2 * g] >> (8 * k) & 255; });
    out.set_d(0, scaled(f16_low(load_head(rows, 0)), 0.125f));
    unroll<4>([&](auto pair) __attribute__((always_inline)) {  // 16 bytes: indices and the rest, of two groups
      const Four q = load_quads(rows, offsetof(Block, qs) + 16 * pair);
      unroll<2>([&](auto i) __attribute__((always_inline)) {
        constexpr int kGroup = 2 * pair + i;
        const Bytes rest = q.v[2 * i + 1];
        set_signed<43>(out, kGroup, grid, packed_signs(rest));
        out.set_scale(kGroup, top_scale(rest));
        out.group_done(kGroup);
      });
    });
  }
};

/// A group of halves whose sub-scales are the nibbles of byte g mod 4 of scales[g / 4].
template <typename Output, typename Group>
[[gnu::always_inline]] inline void finish_nibble_scales(const Bytes (&scales)[2], Output& out, Group) {
  constexpr int kGroup = Group::value;
  out.set_half_scale(kGroup, 0, zero_extend_byte<kGroup % 4>(odd_scales(low_nibbles(scales[kGroup / 4]))));
  out.set_half_scale(kGroup, 1, zero_extend_byte<kGroup % 4>(odd_scales(high_nibbles(scales[kGroup / 4]))));
  out.group_done(kGroup);
}

template <>
struct Unpack<TensorType::IQ2_XS> {
  template <typename Output>
  [[gnu::always_inline]] static void unpack(Rows rows, Output& out, size_t) {
    using Block = BlockIQ2_XS;
    GridRows grid;
    grid.look_up<Block>(rows, kIq2XsGrid, [](const Block& b, size_t g, size_t k) { return b.qs[4 * g + k] & 511; });
    out.set_d(0, scaled(f16_low(load_head(rows, 0)), 0.125f));
    const Four end = load_quads(rows, sizeof(Block) - 16);
    const Bytes scales[2] = {end.v[2], end.v[3]};
    unroll<4>([&](auto pair) __attribute__((always_inline)) {
      const Four q = load_quads(rows, offsetof(Block, qs) + 16 * pair);
      unroll<2>([&](auto i) __attribute__((always_inline)) {  // bits 9 … 15 of four int16 to four bytes
        const Bytes seven = bit_or(shuffle_bytes(shift_right<1>(q.v[2 * i]), within_dwords<1, 3, -1, -1>()), shuffle_bytes(shift_right<1>(q.v[2 * i + 1]), within_dwords<-1, -1, 1, 3>()));
        set_signed<43>(out, 2 * pair + i, grid, even_signs(bit_and(seven, set1_byte(0x7f))));
        finish_nibble_scales(scales, out, Int<2 * pair + i>());
      });
    });
  }
};

template <>
struct Unpack<TensorType::IQ2_S> {
  template <typename Output>
  [[gnu::always_inline]] static void unpack(Rows rows, Output& out, size_t) {
    using Block = BlockIQ2_S;
    GridRows grid;
    grid.look_up<Block>(rows, kIq2SGrid, [](const Block& b, size_t g, size_t k) { return b.qs[4 * g + k] + (size_t(b.qh[g]) << (8 - 2 * k) & 768); });
    out.set_d(0, scaled(f16_low(load_head(rows, 0)), 0.125f));
    const Four end = load_quads(rows, sizeof(Block) - 16);
    const Bytes scales[2] = {end.v[2], end.v[3]};
    unroll<2>([&](auto n) __attribute__((always_inline)) {
      const Four signs = load_quads(rows, offsetof(Block, signs) + 16 * n);
      unroll<4>([&](auto i) __attribute__((always_inline)) {
        set_signed<43>(out, 4 * n + i, grid, signs.v[i]);
        finish_nibble_scales(scales, out, Int<4 * n + i>());
      });
    });
  }
};

template <>
struct Unpack<TensorType::IQ3_XXS> {
  template <typename Output>
  [[gnu::always_inline]] static void unpack(Rows rows, Output& out, size_t) {
    using Block = BlockIQ3_XXS;
    GridRows grid;
    grid.look_up<Block>(rows, kIq3XxsGrid, [](const Block& b, size_t g, size_t k) { return b.qs[8 * g + k]; });
    out.set_d(0, scaled(f16_low(load_head(rows, 0)), 0.25f));
    unroll<2>([&](auto n) __attribute__((always_inline)) {
      const Four rest = load_quads(rows, offsetof(Block, scales_signs) + 16 * n);
      unroll<4>([&](auto i) __attribute__((always_inline)) {
        set_signed<62>(out, 4 * n + i, grid, packed_signs(rest.v[i]));
        out.set_scale(4 * n + i, top_scale(rest.v[i]));
        out.group_done(4 * n + i);
      });
    });
  }
};

template <>
struct Unpack<TensorType::IQ3_S> {
  template <typename Output>
  [[gnu::always_inline]] static void unpack(Rows rows, Output& out, size_t) {
    using Block = BlockIQ3_S;
    GridRows grid;
    grid.look_up<Block>(rows, kIq3SGrid, [](const Block& b, size_t g, size_t k) { return b.qs[8 * g + k] + (size_t(b.qh[g]) << (8 - k) & 256); });
    out.set_d(0, f16_low(load_head(rows, 0)));
    const Bytes scales = load_quads(rows, sizeof(Block) - 16).v[3];
    unroll<2>([&](auto n) __attribute__((always_inline)) {
      const Four signs = load_quads(rows, offsetof(Block, signs) + 16 * n);
      unroll<4>([&](auto i) __attribute__((always_inline)) {
        constexpr int kGroup = 4 * n + i;
        set_signed<15>(out, kGroup, grid, signs.v[i]);
        out.set_scale(kGroup, zero_extend_byte<kGroup / 2>(odd_scales(kGroup % 2 ? high_nibbles(scales) : low_nibbles(scales))));
        out.group_done(kGroup);
      });
    });
  }
};

/// 9 + 8·entry ± 1, minus where bits and mask share a bit.
inline Bytes shifted(Bytes entry, Bytes bits, Bytes mask) {
  return add_bytes(bit_and(shift_left<3>(entry), set1_byte(0xf8)), about(set1_byte(9), set1_byte(1), bits, mask));
}

template <>
struct Unpack<TensorType::IQ1_S> {
  template <typename Output>
  [[gnu::always_inline]] static void unpack(Rows rows, Output& out, size_t) {
    using Block = BlockIQ1_S;
    GridRows grid;
    grid.look_up<Block>(rows, kIq1Grid, [](const Block& b, size_t g, size_t k) { return b.qs[4 * g + k] + (size_t(b.qh[g]) << 8 >> (3 * k) & 0x700); });
    out.set_d(0, scaled(f16_low(load_head(rows, 0)), 0.125f));
    const Four qh = load_quads(rows, offsetof(Block, qh));
    unroll<8>([&](auto g) __attribute__((always_inline)) {
      const Bytes high = g % 2 ? shift_right<16>(qh.v[g / 2]) : qh.v[g / 2];
      const Bytes down = shuffle_bytes(high, within_dwords<1, 1, 1, 1>());
      unroll<2>([&](auto half) __attribute__((always_inline)) {
        const Four entries = grid.quads(2 * g + half);
        unroll<4>([&](auto i) __attribute__((always_inline)) { out.set_codes(g, 4 * half + i, shifted(entries.v[i], down, set1_byte(0x80))); });
      });
      out.set_scale(g, bit_or(bit_and(shift_right<11>(high), set1_dword(14)), set1_dword(1)));
      out.group_done(g);
    });
  }
};

template <>
struct Unpack<TensorType::IQ1_M> {
  template <typename Output>
  [[gnu::always_inline]] static void unpack(Rows rows, Output& out, size_t) {
    using Block = BlockIQ1_M;
    GridRows grid;
    grid.look_up<Block>(rows, kIq1Grid, [](const Block& b, size_t g, size_t k) { return b.qs[4 * g + k] + (size_t(b.qh[2 * g + k / 2]) << (8 - k % 2 * 4) & 0x700); });
    const Four qh = load_quads(rows, offsetof(Block, qh));
    const Four end = load_quads(rows, sizeof(Block) - 16);
    const Bytes s[2] = {end.v[2], end.v[3]};
    const Bytes d = bit_or(bit_or(bit_and(shift_right<12>(s[0]), set1_dword(0xf)), bit_and(shift_right<24>(s[0]), set1_dword(0xf0))),
                           bit_or(bit_and(shift_right<4>(s[1]), set1_dword(0xf00)), bit_and(shift_right<16>(s[1]), set1_dword(0xf000))));
    out.set_d(0, scaled(f16_low(d), 0.125f));
    unroll<8>([&](auto g) __attribute__((always_inline)) {
      unroll<8>([&](auto q) __attribute__((always_inline)) {
        constexpr int kByte = g % 2 * 2 + q / 4;
        const Bytes down = shuffle_bytes(qh.v[g / 2], within_dwords<kByte, kByte, kByte, kByte>());
        out.set_codes(g, q, shifted(grid.quads(2 * g + q / 4).v[q % 4], down, set1_byte(q / 2 % 2 ? 0x80 : 0x08)));
      });
      const Bytes scales = shift_right<g % 4 / 2 * 16 + g % 2 * 6>(s[g / 4]);
      out.set_half_scale(g, 0, bit_or(bit_and(shift_left<1>(scales), set1_dword(14)), set1_dword(1)));
      out.set_half_scale(g, 1, bit_or(bit_and(shift_right<2>(scales), set1_dword(14)), set1_dword(1)));
      out.group_done(g);
    });
  }
};

/// The leading base-3 digit of bytes that are fractions of 256.
inline Bytes digit(Bytes x) { return count_at_least(count_at_least(set1_byte(0), x, set1_byte(86)), x, set1_byte(171)); }
/// The fraction that is left, times 3.
inline Bytes next_digit(Bytes x) { return add_bytes(x, add_bytes(x, x)); }

template <>
struct Unpack<TensorType::TQ1_0> {
  template <typename Output>
  [[gnu::always_inline]] static void unpack(Rows rows, Output& out, size_t) {
    const Four end = load_quads(rows, sizeof(BlockTQ1_0) - 16);  // the last bytes of qs, qh, d
    out.set_d(0, f16_low(shift_right<16>(end.v[3])));
    // Digit n of 32 bytes is group n; of the next 16 bytes half a group; of the last 4 a quad.
    Four a = load_quads(rows, 0), b = load_quads(rows, 16), c = load_quads(rows, 32);
    Bytes last = over_border(end.v[2], end.v[3]);
    unroll<5>([&](auto n) __attribute__((always_inline)) {
      unroll<4>([&](auto i) __attribute__((always_inline)) {
        out.set_codes(n, i, digit(a.v[i]));
        out.set_codes(n, 4 + i, digit(b.v[i]));
        a.v[i] = next_digit(a.v[i]);
        b.v[i] = next_digit(b.v[i]);
      });
      out.group_done(n);
    });
    unroll<6>([&](auto n) __attribute__((always_inline)) {  // the sixteenths of groups 5 … 7
      unroll<4>([&](auto i) __attribute__((always_inline)) {
        if constexpr (n < 5) {
          out.set_codes(5 + n / 2, n % 2 * 4 + i, digit(c.v[i]));
          c.v[i] = next_digit(c.v[i]);
        } else {
          out.set_codes(7, 4 + i, digit(last));
          last = next_digit(last);
        }
      });
      if constexpr (n % 2 == 1) out.group_done(5 + n / 2);
    });
  }
};

}  // namespace
}  // namespace quern::kernels::QUERN_ISA
