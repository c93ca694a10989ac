// The K formats, blocks of 256 elements, to a panel. Where bits lie is said in quant/decode_k.cpp.
namespace quern::kernels::QUERN_ISA {
namespace {

/// d and dmin (one dword) and 12 bytes of 6-bit scales and minimums, of Q4_K and Q5_K; all at the block's start.
inline void unpack_k_scales(Rows rows, Part part) {
  const Four q = load_quads(rows, 0);
  part.store_d(0, q.v[0]);
  part.store_minus_dmin(shift_right<16>(q.v[0]));
  const Bytes six = set1_byte(63), four = set1_byte(15), top = set1_byte(0x30);
  const Bytes scales[2] = {bit_and(q.v[1], six), bit_or(bit_and(q.v[3], four), bit_and(shift_right<2>(q.v[1]), top))};
  const Bytes mins[2] = {bit_and(q.v[2], six), bit_or(bit_and(shift_right<4>(q.v[3]), four), bit_and(shift_right<2>(q.v[2]), top))};
  unroll<8>([&](auto g) __attribute__((always_inline)) {
    part.template store_s<g % 4>(g, 0, scales[g / 4]);
    part.template store_mins<g % 4, g % 4>(g, mins[g / 4]);
  });
}

template <>
struct Unpack<TensorType::Q4_K> {
  static void unpack(Rows rows, Part part, size_t) {
    unpack_k_scales(rows, part);
    for (size_t pair = 0; pair < 4; ++pair) {  // two groups share 32 bytes
      for (size_t half = 0; half < 2; ++half) {
        const Four packed = load_quads(rows, offsetof(BlockQ4_K, qs) + 32 * pair + 16 * half);
        for (size_t i = 0; i < 4; ++i) {
          part.store_codes(2 * pair, 4 * half + i, low_nibbles(packed.v[i]));
          part.store_codes(2 * pair + 1, 4 * half + i, high_nibbles(packed.v[i]));
        }
      }
    }
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
  static void unpack(Rows rows, Part part, size_t) {
    unpack_k_scales(rows, part);
    for (size_t half = 0; half < 2; ++half) {
      const Four qh = load_quads(rows, offsetof(BlockQ5_K, qh) + 16 * half);
      unroll<4>([&](auto pair) __attribute__((always_inline)) {
        const Four packed = load_quads(rows, offsetof(BlockQ5_K, qs) + 32 * pair + 16 * half);
        for (size_t i = 0; i < 4; ++i) {
          part.store_codes(2 * pair, 4 * half + i, bit_or(low_nibbles(packed.v[i]), move_bit<2 * pair, 4>(qh.v[i])));
          part.store_codes(2 * pair + 1, 4 * half + i, bit_or(high_nibbles(packed.v[i]), move_bit<2 * pair + 1, 4>(qh.v[i])));
        }
      });
    }
  }
};

/// 16 signed bytes as the sub-scales of 8 × 2 halves.
inline void store_signed_scales(Part part, const Four& scales) {
  unroll<16>([&](auto i) __attribute__((always_inline)) {
    store_scale(part.panel->s[i / 2][i % 2] + part.first_row, sign_extend_byte<i % 4>(scales.v[i / 4]));
  });
}

template <>
struct Unpack<TensorType::Q6_K> {
  static void unpack(Rows rows, Part part, size_t) {
    store_signed_scales(part, load_quads(rows, offsetof(BlockQ6_K, scales)));
    part.store_d(0, shift_right<16>(load_dword(rows, offsetof(BlockQ6_K, d) - 2)));  // d ends the block: read it as a high half
    const Bytes two = set1_byte(0x30);
    for (size_t eighth = 0; eighth < 4; ++eighth) {  // 16 bytes of qh serve 4 groups of one half of 128 elements
      const size_t n = eighth / 2, half = eighth % 2;
      const Four qh = load_quads(rows, offsetof(BlockQ6_K, qh) + 32 * n + 16 * half);
      const Four a = load_quads(rows, offsetof(BlockQ6_K, ql) + 64 * n + 16 * half);
      const Four b = load_quads(rows, offsetof(BlockQ6_K, ql) + 64 * n + 32 + 16 * half);
      for (size_t i = 0; i < 4; ++i) {
        const Bytes h = qh.v[i];
        part.store_codes(4 * n, 4 * half + i, bit_or(low_nibbles(a.v[i]), bit_and(shift_left<4>(h), two)));
        part.store_codes(4 * n + 1, 4 * half + i, bit_or(low_nibbles(b.v[i]), bit_and(shift_left<2>(h), two)));
        part.store_codes(4 * n + 2, 4 * half + i, bit_or(high_nibbles(a.v[i]), bit_and(h, two)));
        part.store_codes(4 * n + 3, 4 * half + i, bit_or(high_nibbles(b.v[i]), bit_and(shift_right<2>(h), two)));
      }
    }
  }
};

/// Bit pairs: 32 bytes hold groups 4n … 4n + 3; add(group in the block, quad within 16, codes) may add a third bit.
template <typename Add>
inline void unpack_pairs(Rows rows, size_t offset, Part part, Add add) {
  unroll<2>([&](auto n) __attribute__((always_inline)) {
    for (size_t half = 0; half < 2; ++half) {
      const Four packed = load_quads(rows, offset + 32 * n + 16 * half);
      unroll<4>([&](auto j) __attribute__((always_inline)) {
        for (size_t i = 0; i < 4; ++i) {
          const Bytes codes = bit_and(shift_right<2 * j>(packed.v[i]), set1_byte(3));
          part.store_codes(4 * n + j, 4 * half + i, add(std::integral_constant<int, 4 * n + j>(), 4 * half + i, codes));
        }
      });
    }
  });
}

template <>
struct Unpack<TensorType::Q2_K> {
  static void unpack(Rows rows, Part part, size_t) {
    const Four q = load_quads(rows, offsetof(BlockQ2_K, scales));
    const Bytes factors = load_dword(rows, offsetof(BlockQ2_K, d));
    part.store_d(0, factors);
    part.store_minus_dmin(shift_right<16>(factors));
    unroll<8>([&](auto g) __attribute__((always_inline)) {
      constexpr int kByte = g % 2 * 2;
      const Bytes scales = low_nibbles(q.v[g / 2]), mins = high_nibbles(q.v[g / 2]);
      part.template store_s<kByte>(g, 0, scales);
      part.template store_s<kByte + 1>(g, 1, scales);
      part.template store_mins<kByte, kByte + 1>(g, mins);
    });
    unpack_pairs(rows, offsetof(BlockQ2_K, qs), part, [](auto, size_t, Bytes codes) { return codes; });
  }
};

template <>
struct Unpack<TensorType::Q3_K> {
  static void unpack(Rows rows, Part part, size_t) {
    // 12 bytes of scales and d end the block: 16 bytes from 2 before them hold all, shifted by half a dword.
    const Four t = load_quads(rows, offsetof(BlockQ3_K, scales) - 2);
    const auto joined = [](Bytes low, Bytes high) { return bit_or(shift_right<16>(low), shift_left<16>(high)); };
    const Bytes a = joined(t.v[0], t.v[1]), b = joined(t.v[1], t.v[2]), high = joined(t.v[2], t.v[3]);
    part.store_d(0, shift_right<16>(t.v[3]));
    const Bytes top = set1_byte(0x30), less = set1_byte(32);
    Four scales;
    scales.v[0] = sub_bytes(bit_or(low_nibbles(a), bit_and(shift_left<4>(high), top)), less);
    scales.v[1] = sub_bytes(bit_or(low_nibbles(b), bit_and(shift_left<2>(high), top)), less);
    scales.v[2] = sub_bytes(bit_or(high_nibbles(a), bit_and(high, top)), less);
    scales.v[3] = sub_bytes(bit_or(high_nibbles(b), bit_and(shift_right<2>(high), top)), less);
    store_signed_scales(part, scales);
    const Four hmask[2] = {load_quads(rows, offsetof(BlockQ3_K, hmask)), load_quads(rows, offsetof(BlockQ3_K, hmask) + 16)};
    unpack_pairs(rows, offsetof(BlockQ3_K, qs), part, [&](auto group, size_t quad, Bytes codes) {
      return bit_or(codes, move_bit<group, 2>(hmask[quad / 4].v[quad % 4]));
    });
  }
};

}  // namespace
}  // namespace quern::kernels::QUERN_ISA
