// Blocks of 256 elements to a panel: the K formats, IQ4_XS and TQ2_0. Where bits lie is said in quant/decode_k.cpp and decode_iq.cpp.
namespace quern::kernels::QUERN_ISA {
namespace {

/// The 6-bit scales and minimums of Q4_K and Q5_K: byte g mod 4 of dword g / 4.
struct KScales {
  Bytes scales[2], mins[2];

  template <typename Output, typename Group>
  [[gnu::always_inline]] void finish(Output& out, Group) const {
    constexpr int kGroup = Group::value;
    out.set_scale(kGroup, zero_extend_byte<kGroup % 4>(scales[kGroup / 4]));
    out.set_min(kGroup, zero_extend_byte<kGroup % 4>(mins[kGroup / 4]));
    out.group_done(kGroup);
  }
};

/// d and dmin (one dword) and 12 bytes of scales and minimums, at the block's start.
template <typename Output>
[[gnu::always_inline]] inline KScales unpack_k_head(Rows rows, Output& out) {
  const Four q = load_quads(rows, 0);
  out.set_d(0, f16_low(q.v[0]));
  out.set_m(0, negated(f16_low(shift_right<16>(q.v[0]))));
  const Bytes six = set1_byte(63), four = set1_byte(15), top = set1_byte(0x30);
  return {{bit_and(q.v[1], six), bit_or(bit_and(q.v[3], four), bit_and(shift_right<2>(q.v[1]), top))},
          {bit_and(q.v[2], six), bit_or(bit_and(shift_right<4>(q.v[3]), four), bit_and(shift_right<2>(q.v[2]), top))}};
}

template <int kValue>
using Int = std::integral_constant<int, kValue>;

template <>
struct Unpack<TensorType::Q4_K> {
  template <typename Output>
  [[gnu::always_inline]] static void unpack(Rows rows, Output& out, size_t) {
    const KScales scales = unpack_k_head(rows, out);
    unroll<4>([&](auto pair) __attribute__((always_inline)) {  // two groups share 32 bytes
      unroll<2>([&](auto half) __attribute__((always_inline)) {
        const Four packed = load_quads(rows, offsetof(BlockQ4_K, qs) + 32 * pair + 16 * half);
        unroll<4>([&](auto i) __attribute__((always_inline)) {
          out.set_codes(2 * pair, 4 * half + i, low_nibbles(packed.v[i]));
          out.set_codes(2 * pair + 1, 4 * half + i, high_nibbles(packed.v[i]));
        });
      });
      scales.finish(out, Int<2 * pair>());
      scales.finish(out, Int<2 * pair + 1>());
    });
  }
};

/// Bit kBit of every byte moved to bit kTo.
template <int kBit, int kTo>
inline Bytes move_bit(Bytes a) {
  const Bytes mask = set1_byte(1 << kTo);
  if constexpr (kBit > kTo) return bit_and(shift_right<kBit - kTo>(a), mask);
  else return bit_and(shift_left<kTo - kBit>(a), mask);
}

template <>
struct Unpack<TensorType::Q5_K> {
  template <typename Output>
  [[gnu::always_inline]] static void unpack(Rows rows, Output& out, size_t) {
    const KScales scales = unpack_k_head(rows, out);
    const Four qh[2] = {load_quads(rows, offsetof(BlockQ5_K, qh)), load_quads(rows, offsetof(BlockQ5_K, qh) + 16)};
    unroll<4>([&](auto pair) __attribute__((always_inline)) {
      unroll<2>([&](auto half) __attribute__((always_inline)) {
        const Four packed = load_quads(rows, offsetof(BlockQ5_K, qs) + 32 * pair + 16 * half);
        unroll<4>([&](auto i) __attribute__((always_inline)) {
          out.set_codes(2 * pair, 4 * half + i, bit_or(low_nibbles(packed.v[i]), move_bit<2 * pair, 4>(qh[half].v[i])));
          out.set_codes(2 * pair + 1, 4 * half + i, bit_or(high_nibbles(packed.v[i]), move_bit<2 * pair + 1, 4>(qh[half].v[i])));
        });
      });
      scales.finish(out, Int<2 * pair>());
      scales.finish(out, Int<2 * pair + 1>());
    });
  }
};

/// A group of halves whose sub-scales are bytes 2·group and 2·group + 1 of 16 signed ones.
template <typename Output, typename Group>
[[gnu::always_inline]] inline void finish_signed(const Four& scales, Output& out, Group) {
  constexpr int kGroup = Group::value;
  out.set_half_scale(kGroup, 0, sign_extend_byte<2 * kGroup % 4>(scales.v[kGroup / 2]));
  out.set_half_scale(kGroup, 1, sign_extend_byte<2 * kGroup % 4 + 1>(scales.v[kGroup / 2]));
  out.group_done(kGroup);
}

template <>
struct Unpack<TensorType::Q6_K> {
  template <typename Output>
  [[gnu::always_inline]] static void unpack(Rows rows, Output& out, size_t) {
    const Four scales = load_quads(rows, offsetof(BlockQ6_K, scales));
    out.set_d(0, f16_low(shift_right<16>(load_quads(rows, offsetof(BlockQ6_K, d) - 14).v[3])));  // d ends the block: read it as the last high half
    const Bytes two = set1_byte(0x30);
    unroll<2>([&](auto n) __attribute__((always_inline)) {
      unroll<2>([&](auto half) __attribute__((always_inline)) {  // 16 bytes of qh serve 4 groups of one half of 128 elements
        const Four qh = load_quads(rows, offsetof(BlockQ6_K, qh) + 32 * n + 16 * half);
        const Four a = load_quads(rows, offsetof(BlockQ6_K, ql) + 64 * n + 16 * half);
        const Four b = load_quads(rows, offsetof(BlockQ6_K, ql) + 64 * n + 32 + 16 * half);
        unroll<4>([&](auto i) __attribute__((always_inline)) {
          const Bytes h = qh.v[i];
          out.set_codes(4 * n, 4 * half + i, bit_or(low_nibbles(a.v[i]), bit_and(shift_left<4>(h), two)));
          out.set_codes(4 * n + 1, 4 * half + i, bit_or(low_nibbles(b.v[i]), bit_and(shift_left<2>(h), two)));
          out.set_codes(4 * n + 2, 4 * half + i, bit_or(high_nibbles(a.v[i]), bit_and(h, two)));
          out.set_codes(4 * n + 3, 4 * half + i, bit_or(high_nibbles(b.v[i]), bit_and(shift_right<2>(h), two)));
        });
      });
      unroll<4>([&](auto j) __attribute__((always_inline)) { finish_signed(scales, out, Int<4 * n + j>()); });
    });
  }
};

/// Bit pairs: 32 bytes hold groups 4n … 4n + 3; add(group in the block, quad, codes) may add a third bit; done(group) ends a group.
template <typename Output, typename Add, typename Done>
[[gnu::always_inline]] inline void unpack_pairs(Rows rows, size_t offset, Output& out, Add add, Done done) {
  unroll<2>([&](auto n) __attribute__((always_inline)) {
    unroll<2>([&](auto half) __attribute__((always_inline)) {
      const Four packed = load_quads(rows, offset + 32 * n + 16 * half);
      unroll<4>([&](auto j) __attribute__((always_inline)) {
        unroll<4>([&](auto i) __attribute__((always_inline)) {
          const Bytes codes = bit_and(shift_right<2 * j>(packed.v[i]), set1_byte(3));
          out.set_codes(4 * n + j, 4 * half + i, add(Int<4 * n + j>(), Int<4 * half + i>(), codes));
        });
      });
    });
    unroll<4>([&](auto j) __attribute__((always_inline)) { done(Int<4 * n + j>()); });
  });
}

template <>
struct Unpack<TensorType::Q2_K> {
  template <typename Output>
  [[gnu::always_inline]] static void unpack(Rows rows, Output& out, size_t) {
    const Four q = load_quads(rows, offsetof(BlockQ2_K, scales));
    const Bytes factors = load_quads(rows, offsetof(BlockQ2_K, d) - 12).v[3];
    out.set_d(0, f16_low(factors));
    out.set_m(0, negated(f16_low(shift_right<16>(factors))));
    unpack_pairs(
        rows, offsetof(BlockQ2_K, qs), out, [](auto, auto, Bytes codes) __attribute__((always_inline)) { return codes; },
        [&](auto g) __attribute__((always_inline)) {
          constexpr int kByte = g % 2 * 2;
          const Bytes scales = low_nibbles(q.v[g / 2]), mins = high_nibbles(q.v[g / 2]);
          out.set_half_scale(g, 0, zero_extend_byte<kByte>(scales));
          out.set_half_scale(g, 1, zero_extend_byte<kByte + 1>(scales));
          out.set_half_mins(g, two_bytes<kByte, kByte + 1>(mins));
          out.group_done(g);
        });
  }
};

template <>
struct Unpack<TensorType::Q3_K> {
  template <typename Output>
  [[gnu::always_inline]] static void unpack(Rows rows, Output& out, size_t) {
    // 12 bytes of scales and d end the block: 16 bytes from 2 before them hold all, shifted by half a dword.
    const Four t = load_quads(rows, offsetof(BlockQ3_K, scales) - 2);
    const Bytes a = over_border(t.v[0], t.v[1]), b = over_border(t.v[1], t.v[2]), high = over_border(t.v[2], t.v[3]);
    out.set_d(0, f16_low(shift_right<16>(t.v[3])));
    const Bytes top = set1_byte(0x30), less = set1_byte(32);
    Four scales;
    scales.v[0] = sub_bytes(bit_or(low_nibbles(a), bit_and(shift_left<4>(high), top)), less);
    scales.v[1] = sub_bytes(bit_or(low_nibbles(b), bit_and(shift_left<2>(high), top)), less);
    scales.v[2] = sub_bytes(bit_or(high_nibbles(a), bit_and(high, top)), less);
    scales.v[3] = sub_bytes(bit_or(high_nibbles(b), bit_and(shift_right<2>(high), top)), less);
    const Four hmask[2] = {load_quads(rows, offsetof(BlockQ3_K, hmask)), load_quads(rows, offsetof(BlockQ3_K, hmask) + 16)};
    unpack_pairs(
        rows, offsetof(BlockQ3_K, qs), out,
        [&](auto group, auto quad, Bytes codes) __attribute__((always_inline)) { return bit_or(codes, move_bit<group, 2>(hmask[quad / 4].v[quad % 4])); },
        [&](auto group) __attribute__((always_inline)) { finish_signed(scales, out, group); });
  }
};

template <>
struct Unpack<TensorType::IQ4_XS> {
  template <typename Output>
  [[gnu::always_inline]] static void unpack(Rows rows, Output& out, size_t) {
    const Four head = load_quads(rows, 0);  // d and the high bits of 8 scales, then their low nibbles
    out.set_d(0, f16_low(head.v[0]));
    const Bytes levels = kWideSigned ? set1_16(kIq4Levels) : bit_xor(set1_16(kIq4Levels), set1_byte(0x80));
    const Bytes less = set1_byte(32), high = set1_byte(0x30);
    unroll<8>([&](auto g) __attribute__((always_inline)) {
      const Four packed = load_quads(rows, offsetof(BlockIQ4_XS, qs) + 16 * g);
      unroll<4>([&](auto i) __attribute__((always_inline)) {
        out.set_codes(g, i, shuffle_bytes(levels, low_nibbles(packed.v[i])));
        out.set_codes(g, i + 4, shuffle_bytes(levels, high_nibbles(packed.v[i])));
      });
      // Scale g: nibble g of scales_l, and bits 2g and 2g + 1 of scales_h, which is the high half of the first dword; taken to byte 0.
      const Bytes low = bit_and(shift_right<4 * g>(head.v[1]), set1_dword(15));
      constexpr int kBit = 16 + 2 * g;
      const Bytes top = bit_and(shift_right<kBit - 4>(head.v[0]), high);
      out.set_scale(g, sign_extend_byte<0>(sub_bytes(bit_or(low, top), less)));
      out.group_done(g);
    });
  }
};

template <>
struct Unpack<TensorType::TQ2_0> {
  template <typename Output>
  [[gnu::always_inline]] static void unpack(Rows rows, Output& out, size_t) {
    out.set_d(0, f16_low(shift_right<16>(load_quads(rows, offsetof(BlockTQ2_0, d) - 14).v[3])));
    unpack_pairs(
        rows, offsetof(BlockTQ2_0, qs), out, [](auto, auto, Bytes codes) __attribute__((always_inline)) { return codes; },
        [&](auto group) __attribute__((always_inline)) { out.group_done(group); });
  }
};

}  // namespace
}  // namespace quern::kernels::QUERN_ISA
