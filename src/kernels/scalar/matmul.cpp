// The matmul kernels in portable C++: the definition of kernels.h spelled out, one weight row and one token at a time. The SIMD
// tables are tested against it.
#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/scalar/simd.h"
// clang-format off
#include "kernels/generic/float_matmul.inl"
// clang-format on
#include "kernels/tables.h"
#include "quant/group_form.h"

namespace quern::kernels::scalar {
namespace {

/// Quantizes up to 32 values; what lies beyond count is zero. Returns false if a value is not finite.
bool quantize_group(const float* x, size_t count, int8_t* codes, ActGroup& group) {
  uint32_t amax_bits = 0;
  for (size_t i = 0; i < count; ++i) amax_bits = std::max(amax_bits, std::bit_cast<uint32_t>(x[i]) & 0x7fffffffu);
  std::memset(codes, 0, kActGroup);
  group = {};
  if (amax_bits >= 0x7f800000u) return false;
  const float amax = std::bit_cast<float>(amax_bits);
  if (amax < 0x1p-100f) return true;
  group.scale = amax / 127.0f;
  const float inv = 127.0f / amax;
  for (size_t i = 0; i < count; ++i) {
    const int q = std::clamp(int(__builtin_rintf(x[i] * inv)), -127, 127);  // rint: to nearest, ties to even (MXCSR's default)
    codes[i] = int8_t(q);
    group.sums[i / 16] = int16_t(group.sums[i / 16] + q);
  }
  group.scaled_sum = group.scale * float(group.sums[0] + group.sums[1]);
  return true;
}

bool quantize_row(const float* x, size_t n, int8_t* codes, ActGroup* groups) {
  bool finite = true;
  for (size_t g = 0; g * kActGroup < n; ++g) {
    const size_t count = std::min(kActGroup, n - g * kActGroup);
    finite &= quantize_group(x + g * kActGroup, count, codes + g * kActGroup, groups[g]);
  }
  return finite;
}

/// acc over one group, as QuantMatmul defines it.
float add_group(const WeightGroup& w, const GroupForm& form, const int8_t* x, const ActGroup& group, float acc) {
  int32_t dot[2] = {0, 0};
  for (size_t i = 0; i < kGroupElems; ++i) dot[i / 16] += (int32_t(w.codes[i]) - form.offset) * x[i];
  const float a = group.scale;
  if (form.has_half_scales) {
    acc = __builtin_fmaf(float(w.s[0] * dot[0] + w.s[1] * dot[1]), w.D * a, acc);
    if (form.has_mins()) acc = __builtin_fmaf(float(w.m[0] * group.sums[0] + w.m[1] * group.sums[1]), w.M * a, acc);
  } else {
    acc = __builtin_fmaf(float(dot[0] + dot[1]), w.D * float(w.s[0]) * a, acc);
    if (form.has_mins()) acc = __builtin_fmaf(w.M * float(w.m[0]), group.scaled_sum, acc);
  }
  return acc;
}

void quant_matmul(const QuantMatmul& args) {
  const GroupForm& form = *find_group_form(args.type);
  const FormatInfo& format = format_info(args.type);
  const ActRows& x = args.x;
  const size_t block_groups = format.block_elems / kGroupElems;
  WeightGroup groups[8];
  for (size_t r = 0; r < args.n_rows; ++r) {
    for (size_t t = 0; t < args.n_tokens; ++t) args.y[t * args.y_stride + r] = 0.0f;
    const std::byte* block = args.weights + r * args.row_bytes;
    for (size_t first = 0; first < x.n_groups; first += block_groups, block += format.block_bytes) {
      unpack_groups(args.type, block, groups);
      for (size_t t = 0; t < args.n_tokens; ++t) {
        float acc = args.y[t * args.y_stride + r];
        for (size_t g = 0; g < block_groups; ++g) {
          const size_t at = t * x.n_groups + first + g;
          acc = add_group(groups[g], form, x.codes + at * kActGroup, x.groups[at], acc);
        }
        args.y[t * args.y_stride + r] = acc;
      }
    }
  }
}

}  // namespace

const MatmulKernels* matmul_kernels() {
  static const MatmulKernels table = {quantize_row, quant_matmul, float_matmul<2, 2, false>, 2};
  return &table;
}

}  // namespace quern::kernels::scalar
