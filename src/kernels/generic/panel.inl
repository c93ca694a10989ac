// A panel: two vectors of rows × up to 256 columns of a quantized matrix, unpacked so that one vector holds 4 consecutive codes of each row.
// Also the small helpers that the unpackers of all formats share. Included after bytes.h of an instruction set.
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "kernels/kernels.h"
#include "quant/blocks.h"
#include "quant/group_form.h"

namespace quern::kernels::QUERN_ISA {
namespace {

inline constexpr size_t kPanelRows = 2 * kPartRows;
inline constexpr size_t kPanelGroups = 8;

struct Panel {
  alignas(64) uint8_t codes[kPanelGroups][8][kPanelRows][4];  ///< [group][k / 4][row][k mod 4]
  float D[kPanelGroups][kPanelRows];                          ///< of a group, its sub-scale multiplied in; see factors_of
  float M[kPanelGroups][kPanelRows];                          ///< of a group, its minimum multiplied in
  // Formats whose halves have sub-scales of their own keep them apart:
  uint32_t s[kPanelGroups][2][kPanelRows];                    ///< as store_scale leaves them
  uint32_t m[kPanelGroups][kPanelRows];                       ///< minimums of the halves, two int16
};

static_assert(sizeof(Panel) <= 16 << 10);  // scratch.cpp

/// The quantized activations that a tile sees: row t of each is t · group_stride groups on.
struct ActTile {
  const int8_t* codes;
  const ActGroup* groups;
  size_t group_stride;
};
inline ActTile act_tile(const ActRows& x, size_t token, size_t group) {
  const size_t at = token * x.n_groups + group;
  return {x.codes + at * kActGroup, x.groups + at, x.n_groups};
}

/// Where a tile takes its sums from (null: they start at +0) and leaves them: the rows of a panel lie side by side.
struct TileSums {
  const float* from;
  size_t from_stride;
  float* to;
  size_t to_stride;

  TileSums at(size_t token) const { return {from ? from + token * from_stride : nullptr, from_stride, to + token * to_stride, to_stride}; }
};

/// Block sizes, for code compiled per format.
template <TensorType kType>
constexpr size_t kBlockElems = group_form_of(kType).block_elems;
template <TensorType kType>
constexpr size_t kBlockBytes = group_form_of(kType).block_bytes;

/// Whether sub-scales and minimums are multiplied into D and M when a group is unpacked.
constexpr bool folds_scales(const GroupForm& form) { return form.max_scale > 1 && !form.has_half_scales; }
/// Where D and M of a group lie: [0] if the whole block shares them.
constexpr size_t factors_of(const GroupForm& form, size_t group) { return form.has_block_factors && !folds_scales(form) ? 0 : group; }

/// The rows that one vector sees: kPartRows rows at one block.
struct Rows {
  const std::byte* base;
  size_t stride;
};

/// Calls f(integral_constant 0 … N − 1), always unrolled.
template <int N, typename F>
[[gnu::always_inline]] inline void unroll(F&& f) {
  [&]<int... kI>(std::integer_sequence<int, kI...>) __attribute__((always_inline)) { (f(std::integral_constant<int, kI>()), ...); }
  (std::make_integer_sequence<int, N>());
}

struct Four {
  Bytes v[4];
};

/// Four vectors of 4 dwords a row become vector i = dword i of every row.
inline Four transpose(const Four& in) {
  const Bytes a = low_dwords(in.v[0], in.v[1]), b = high_dwords(in.v[0], in.v[1]);
  const Bytes c = low_dwords(in.v[2], in.v[3]), d = high_dwords(in.v[2], in.v[3]);
  return {{low_qwords(a, c), high_qwords(a, c), low_qwords(b, d), high_qwords(b, d)}};
}

/// 16 bytes of every row, transposed: vector i holds bytes 4i … 4i + 3 of each row.
inline Four load_quads(Rows rows, size_t offset) {
  Four f;
  for (size_t j = 0; j < 4; ++j) f.v[j] = load_rows(rows.base + offset + j * rows.stride, rows.stride);
  return transpose(f);
}
/// 4 bytes of every row; the 12 behind them are read too and must be there.
inline Bytes load_head(Rows rows, size_t offset) { return load_quads(rows, offset).v[0]; }
/// The dword that lies over the border of two: the high half of the first and the low half of the second.
inline Bytes over_border(Bytes a, Bytes b) { return bit_or(shift_right<16>(a), shift_left<16>(b)); }

/// A byte index for shuffle_bytes: within each dword, byte b0, b1, b2, b3 of the same dword; −1 gives zero.
template <int b0, int b1, int b2, int b3>
inline Bytes within_dwords() {
  static constexpr std::array<int8_t, 16> kIndex = [] {
    std::array<int8_t, 16> index{};
    const int b[4] = {b0, b1, b2, b3};
    for (size_t i = 0; i < 16; ++i) index[i] = int8_t(b[i % 4] < 0 ? -128 : b[i % 4] + int(i / 4 * 4));
    return index;
  }();
  return set1_16(kIndex.data());
}

/// Byte kByte of every dword, as int32.
template <int kByte>
inline Bytes zero_extend_byte(Bytes dwords) { return shuffle_bytes(dwords, within_dwords<kByte, -1, -1, -1>()); }
/// Bytes kByte0 and kByte1 of every dword, as two int16.
template <int kByte0, int kByte1>
inline Bytes two_bytes(Bytes dwords) { return shuffle_bytes(dwords, within_dwords<kByte0, -1, kByte1, -1>()); }

/// A dword of 32 bits per row, one an element: byte j of quad kQuad sees its bit where quad_bits and quad_mask meet.
template <int kQuad>
inline Bytes quad_bits(Bytes bits) { return shuffle_bytes(bits, within_dwords<kQuad / 2, kQuad / 2, kQuad / 2, kQuad / 2>()); }
template <int kQuad>
inline Bytes quad_mask() { return set1_dword(kQuad % 2 ? 0x80402010u : 0x08040201u); }

/// Where the rows of one vector lie in the panel: what an unpacker writes to. DirectPart is another such output.
/// D and M come before what is multiplied into them.
template <TensorType kType>
class Part {
 public:
  Part(Panel& panel, size_t first_row) : panel_(panel), first_row_(first_row) {}

  /// Codes 4·quad … 4·quad + 3 of a group.
  [[gnu::always_inline]] void set_codes(size_t group, size_t quad, Bytes codes) { store_bytes(panel_.codes[group][quad][first_row_], codes); }
  /// D and M of a group; group 0 for formats with block factors.
  [[gnu::always_inline]] void set_d(size_t group, Factors d) {
    if constexpr (folds_scales(kForm)) d_ = d;
    else store_factors(panel_.D[group] + first_row_, d);
  }
  [[gnu::always_inline]] void set_m(size_t group, Factors m) {
    if constexpr (folds_scales(kForm)) m_ = m;
    else store_factors(panel_.M[group] + first_row_, m);
  }
  /// A group's sub-scale and minimum, int32.
  [[gnu::always_inline]] void set_scale(size_t group, Bytes dwords) { store_factors(panel_.D[group] + first_row_, times(d_, dwords)); }
  [[gnu::always_inline]] void set_min(size_t group, Bytes dwords) { store_factors(panel_.M[group] + first_row_, times(m_, dwords)); }
  /// The sub-scale of a half, int32; the minimums of both halves, two int16.
  [[gnu::always_inline]] void set_half_scale(size_t group, size_t half, Bytes dwords) { store_scale(panel_.s[group][half] + first_row_, dwords); }
  [[gnu::always_inline]] void set_half_mins(size_t group, Bytes dwords) { store_bytes(panel_.m[group] + first_row_, dwords); }
  /// All of a group has been set.
  void group_done(size_t) {}

 private:
  static constexpr GroupForm kForm = group_form_of(kType);

  Panel& panel_;
  size_t first_row_;
  Factors d_, m_;
};

inline Bytes low_nibbles(Bytes a) { return bit_and(a, set1_byte(15)); }
inline Bytes high_nibbles(Bytes a) { return bit_and(shift_right<4>(a), set1_byte(15)); }

/// Blocks to a panel: one specialisation a format. `unpack(rows, out, group)` unpacks one block whose first group is `group`; it finishes
/// the groups in ascending order.
template <TensorType kType>
struct Unpack;

/// The factors of the group at hand, for outputs that use them at once.
class GroupFactors {
 public:
  [[gnu::always_inline]] void set_d(size_t, Factors d) { d_ = group_d_ = d; }
  [[gnu::always_inline]] void set_m(size_t, Factors m) { m_ = group_m_ = m; }
  [[gnu::always_inline]] void set_scale(size_t, Bytes dwords) { group_d_ = times(d_, dwords); }
  [[gnu::always_inline]] void set_min(size_t, Bytes dwords) { group_m_ = times(m_, dwords); }
  [[gnu::always_inline]] void set_half_mins(size_t, Bytes dwords) { half_mins_ = dwords; }

 protected:
  Factors d_, m_, group_d_, group_m_ = {};
  Bytes half_mins_ = {};
};

/// An unpacker's output that multiplies a block by one token instead of keeping it: each instruction set's direct.h.
template <TensorType kType>
class DirectPart;

/// acc after one block of a vector of rows; x: the token's groups of this block. Formats with a better way specialise it.
template <TensorType kType>
[[gnu::always_inline]] inline void add_block(Rows rows, const ActTile& x, Factors& acc) {
  DirectPart<kType> out(x, acc);
  Unpack<kType>::unpack(rows, out, 0);
}

}  // namespace
}  // namespace quern::kernels::QUERN_ISA
