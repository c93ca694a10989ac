// Formats whose codes come from large tables, IQ1 to IQ3, and the base-3 digits of TQ1_0. One gather looks up an entry of every row;
// that is far faster than row by row, where each index is cut out and each entry stored by itself. Where bits lie is said in
// quant/decode_iq.cpp.
#include "quant/codebooks.h"

namespace quern::kernels::QUERN_ISA {
namespace {

/// kCount bits of dwords from bit kFrom on, as bits 8 and above.
template <int kFrom, int kCount>
inline Bytes above_byte(Bytes a) {
  const Bytes mask = set1_dword(((1u << kCount) - 1) << 8);
  if constexpr (kFrom >= 8) return bit_and(shift_right<kFrom - 8>(a), mask);
  else return bit_and(shift_left<8 - kFrom>(a), mask);
}

/// A quad of a group as codes kOffset ± entry; bit i of `signs` (a dword a row) is the sign of element i of the group.
template <int kOffset, int kQuad, typename Output>
[[gnu::always_inline]] inline void set_signed(Output& out, size_t group, Bytes entry, Bytes signs) {
  out.set_codes(group, kQuad, about(set1_byte(kOffset), entry, quad_bits<kQuad>(signs), quad_mask<kQuad>()));
}

/// levels[rank] of the elements of one half of an entry of ranks. What else lies in the bytes does not matter to shuffle_bytes: ranks are
/// below 4, so that no byte's top bit is set.
template <int kHalf>
inline Bytes level_of(const std::array<int8_t, 16>& levels, Bytes ranks) { return shuffle_bytes(set1_16(levels.data()), kHalf ? shift_right<4>(ranks) : ranks); }

/// A group of IQ2. index_of(k): the entry of elements 8k … 8k + 7, a dword a row.
template <typename Output, size_t kEntries, typename IndexOf>
[[gnu::always_inline]] inline void set_iq2(Output& out, size_t group, const Ranks<kEntries>& grid, Bytes signs, IndexOf index_of) {
  unroll<4>([&](auto k) __attribute__((always_inline)) {
    const Bytes ranks = gather(grid.data(), index_of(k));
    unroll<2>([&](auto half) __attribute__((always_inline)) { set_signed<43, 2 * k + half>(out, group, level_of<half>(kIq2Levels, ranks), signs); });
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
    out.set_d(0, scaled(f16_low(load_head(rows, 0)), 0.125f));
    unroll<4>([&](auto pair) __attribute__((always_inline)) {  // 16 bytes: indices and the rest, of two groups
      const Four q = load_quads(rows, offsetof(Block, qs) + 16 * pair);
      unroll<2>([&](auto i) __attribute__((always_inline)) {
        constexpr int kGroup = 2 * pair + i;
        const Bytes rest = q.v[2 * i + 1];
        set_iq2(out, kGroup, kIq2XxsRanks, packed_signs(rest), [&](auto k) { return zero_extend_byte<k>(q.v[2 * i]); });
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
    out.set_d(0, scaled(f16_low(load_head(rows, 0)), 0.125f));
    const Four end = load_quads(rows, sizeof(Block) - 16);
    const Bytes scales[2] = {end.v[2], end.v[3]};
    unroll<4>([&](auto pair) __attribute__((always_inline)) {
      const Four q = load_quads(rows, offsetof(Block, qs) + 16 * pair);
      unroll<2>([&](auto i) __attribute__((always_inline)) {  // bits 9 … 15 of four int16 to four bytes
        const Bytes seven = bit_or(shuffle_bytes(shift_right<1>(q.v[2 * i]), within_dwords<1, 3, -1, -1>()), shuffle_bytes(shift_right<1>(q.v[2 * i + 1]), within_dwords<-1, -1, 1, 3>()));
        set_iq2(out, 2 * pair + i, kIq2XsRanks, even_signs(bit_and(seven, set1_byte(0x7f))),
                [&](auto k) { return bit_and(shift_right<k % 2 * 16>(q.v[2 * i + k / 2]), set1_dword(511)); });
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
    out.set_d(0, scaled(f16_low(load_head(rows, 0)), 0.125f));
    const Four end = load_quads(rows, offsetof(Block, qh));
    const Bytes scales[2] = {end.v[2], end.v[3]};
    unroll<2>([&](auto n) __attribute__((always_inline)) {
      const Four qs = load_quads(rows, offsetof(Block, qs) + 16 * n), signs = load_quads(rows, offsetof(Block, signs) + 16 * n);
      unroll<4>([&](auto i) __attribute__((always_inline)) {
        set_iq2(out, 4 * n + i, kIq2SRanks, signs.v[i], [&](auto k) { return bit_or(zero_extend_byte<k>(qs.v[i]), above_byte<8 * i + 2 * k, 2>(end.v[n])); });
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
    out.set_d(0, scaled(f16_low(load_head(rows, 0)), 0.25f));
    unroll<2>([&](auto n) __attribute__((always_inline)) {
      const Four rest = load_quads(rows, offsetof(Block, scales_signs) + 16 * n);
      unroll<2>([&](auto pair) __attribute__((always_inline)) {  // 16 bytes of indices, of two groups
        const Four qs = load_quads(rows, offsetof(Block, qs) + 32 * n + 16 * pair);
        unroll<2>([&](auto i) __attribute__((always_inline)) {
          constexpr int kInFour = 2 * pair + i, kGroup = 4 * n + kInFour;
          const Bytes signs = packed_signs(rest.v[kInFour]);
          unroll<8>([&](auto q) __attribute__((always_inline)) {
            set_signed<62, q>(out, kGroup, gather(kIq3XxsGrid.data(), zero_extend_byte<q % 4>(qs.v[2 * i + q / 4])), signs);
          });
          out.set_scale(kGroup, top_scale(rest.v[kInFour]));
          out.group_done(kGroup);
        });
      });
    });
  }
};

template <>
struct Unpack<TensorType::IQ3_S> {
  template <typename Output>
  [[gnu::always_inline]] static void unpack(Rows rows, Output& out, size_t) {
    using Block = BlockIQ3_S;
    out.set_d(0, f16_low(load_head(rows, 0)));
    const Four high = load_quads(rows, offsetof(Block, qh));
    const Bytes scales = load_quads(rows, sizeof(Block) - 16).v[3];
    unroll<2>([&](auto n) __attribute__((always_inline)) {
      const Four signs = load_quads(rows, offsetof(Block, signs) + 16 * n);
      unroll<2>([&](auto pair) __attribute__((always_inline)) {  // 16 bytes of indices, of two groups
        const Four qs = load_quads(rows, offsetof(Block, qs) + 32 * n + 16 * pair);
        unroll<2>([&](auto i) __attribute__((always_inline)) {
          constexpr int kInFour = 2 * pair + i, kGroup = 4 * n + kInFour;
          unroll<8>([&](auto q) __attribute__((always_inline)) {
            const Bytes index = bit_or(zero_extend_byte<q % 4>(qs.v[2 * i + q / 4]), above_byte<8 * kInFour + q, 1>(high.v[n]));
            set_signed<15, q>(out, kGroup, gather(kIq3SGrid.data(), index), signs.v[kInFour]);
          });
          out.set_scale(kGroup, zero_extend_byte<2 * n + pair>(odd_scales(i ? high_nibbles(scales) : low_nibbles(scales))));
          out.group_done(kGroup);
        });
      });
    });
  }
};

inline constexpr std::array<int8_t, 16> kIq1Codes = {0, 8, 16};  // of a rank, before the shift of ±1 about 1

/// Elements 8k … 8k + 7 of a group of IQ1: codes 1 + 8·rank ± 1, minus where a byte of `bits` has a bit of `mask`.
template <int k, typename Output>
[[gnu::always_inline]] inline void set_iq1(Output& out, size_t group, Bytes index, Bytes bits, Bytes mask) {
  const Bytes ranks = gather(kIq1Ranks.data(), index), shift = about(set1_byte(1), set1_byte(1), bits, mask);
  unroll<2>([&](auto half) __attribute__((always_inline)) { out.set_codes(group, 2 * k + half, add_bytes(level_of<half>(kIq1Codes, ranks), shift)); });
}

template <>
struct Unpack<TensorType::IQ1_S> {
  template <typename Output>
  [[gnu::always_inline]] static void unpack(Rows rows, Output& out, size_t) {
    using Block = BlockIQ1_S;
    out.set_d(0, scaled(f16_low(load_head(rows, 0)), 0.125f));
    const Four qh = load_quads(rows, offsetof(Block, qh));
    unroll<2>([&](auto n) __attribute__((always_inline)) {
      const Four qs = load_quads(rows, offsetof(Block, qs) + 16 * n);
      unroll<4>([&](auto i) __attribute__((always_inline)) {
        constexpr int kGroup = 4 * n + i, kWord = 16 * (i % 2);
        const Bytes high = qh.v[kGroup / 2], down = shuffle_bytes(high, within_dwords<kWord / 8 + 1, kWord / 8 + 1, kWord / 8 + 1, kWord / 8 + 1>());
        unroll<4>([&](auto k) __attribute__((always_inline)) {
          set_iq1<k>(out, kGroup, bit_or(zero_extend_byte<k>(qs.v[i]), above_byte<kWord + 3 * k, 3>(high)), down, set1_byte(0x80));
        });
        out.set_scale(kGroup, bit_or(bit_and(shift_right<kWord + 11>(high), set1_dword(14)), set1_dword(1)));
        out.group_done(kGroup);
      });
    });
  }
};

template <>
struct Unpack<TensorType::IQ1_M> {
  template <typename Output>
  [[gnu::always_inline]] static void unpack(Rows rows, Output& out, size_t) {
    using Block = BlockIQ1_M;
    const Four qh = load_quads(rows, offsetof(Block, qh));
    const Four end = load_quads(rows, sizeof(Block) - 16);
    const Bytes s[2] = {end.v[2], end.v[3]};
    const Bytes d = bit_or(bit_or(bit_and(shift_right<12>(s[0]), set1_dword(0xf)), bit_and(shift_right<24>(s[0]), set1_dword(0xf0))),
                           bit_or(bit_and(shift_right<4>(s[1]), set1_dword(0xf00)), bit_and(shift_right<16>(s[1]), set1_dword(0xf000))));
    out.set_d(0, scaled(f16_low(d), 0.125f));
    unroll<2>([&](auto n) __attribute__((always_inline)) {
      const Four qs = load_quads(rows, offsetof(Block, qs) + 16 * n);
      unroll<4>([&](auto i) __attribute__((always_inline)) {
        constexpr int kGroup = 4 * n + i;
        const Bytes high = qh.v[kGroup / 2];  // a nibble for 8 elements: three bits of index, and whether they are shifted down
        unroll<4>([&](auto k) __attribute__((always_inline)) {
          constexpr int kByte = i % 2 * 2 + k / 2;
          const Bytes index = bit_or(zero_extend_byte<k>(qs.v[i]), above_byte<8 * kByte + k % 2 * 4, 3>(high));
          set_iq1<k>(out, kGroup, index, shuffle_bytes(high, within_dwords<kByte, kByte, kByte, kByte>()), set1_byte(k % 2 ? 0x80 : 0x08));
        });
        const Bytes scales = shift_right<i / 2 * 16 + i % 2 * 6>(s[n]);
        out.set_half_scale(kGroup, 0, bit_or(bit_and(shift_left<1>(scales), set1_dword(14)), set1_dword(1)));
        out.set_half_scale(kGroup, 1, bit_or(bit_and(shift_right<2>(scales), set1_dword(14)), set1_dword(1)));
        out.group_done(kGroup);
      });
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
