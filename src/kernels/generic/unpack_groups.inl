// Formats whose codes come from large tables: each row is unpacked by the scalar definition (quant/group_form.h) and the 16 rows are
// transposed. Prefill, where a panel serves many tokens, hardly notices; decode is bound by the table look-ups anyway.
namespace quern::kernels::QUERN_ISA {
namespace {

/// One sub-scale in the form store_scale gives.
inline void set_scale(uint32_t& dst, int s) {
  if (kScaleIsFloat) dst = std::bit_cast<uint32_t>(float(s));
  else dst = uint32_t(uint16_t(s)) * 0x10001u;
}

template <TensorType kType>
struct Unpack {
  static void unpack(Rows rows, const Part& part, size_t group) {
    static constexpr GroupForm kForm = group_form_of(kType);
    constexpr size_t kGroups = kForm.has_block_factors ? 8 : 1;  // formats of 256 and of 32 elements
    alignas(64) std::byte codes[kPartRows][kGroups * 32];
    Panel& p = *part.panel;
    WeightGroup row[kGroups];
    for (size_t r = 0; r < kPartRows; ++r) {
      unpack_groups(kType, rows.base + r * rows.stride, row);
      for (size_t g = 0; g < kGroups; ++g) {
        std::memcpy(codes[r] + 32 * g, row[g].codes, 32);
        set_scale(p.s[group + g][0][part.first_row + r], row[g].s[0]);
        set_scale(p.s[group + g][1][part.first_row + r], row[g].s[1]);
      }
      p.D[group][part.first_row + r] = row[0].D;
    }
    for (size_t i = 0; i < kGroups * 2; ++i) {
      Four q = load_quads({codes[0], sizeof codes[0]}, 16 * i);
      if (kWideSigned && kForm.max_code > 127) for (Bytes& v : q.v) v = bit_xor(v, set1_byte(0x80));
      for (size_t j = 0; j < 4; ++j) part.set_codes(group + i / 2, i % 2 * 4 + j, q.v[j]);
    }
  }
};

}  // namespace
}  // namespace quern::kernels::QUERN_ISA
