// Encode and decode of cache rows. A row is first packed into cells; K scatters the cells over its tile, V copies them.
#include "quant/kv_codec.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "base/fp.h"

namespace quern {
namespace {

constexpr size_t kLanes = 16;           // positions of a K tile
constexpr uint16_t kNanScale = 0x7e00;  // f16

/// Largest magnitude by its bits, so that a NaN or infinity is never lost.
uint32_t largest_magnitude(const float* x, size_t n) {
  uint32_t bits = 0;
  for (size_t i = 0; i < n; ++i) bits = std::max(bits, std::bit_cast<uint32_t>(x[i]) & 0x7fffffffu);
  return bits;
}
bool is_finite_magnitude(uint32_t bits) { return bits < 0x7f800000u; }

/// Round to nearest even for |x| < 2^22: adding 1.5·2^23 leaves no bits below the unit.
int32_t round_even(float x) { return int32_t(std::bit_cast<uint32_t>(x + 12582912.0f) - 0x4b400000u); }

/// f16 that never becomes infinite.
uint16_t scale_to_f16(float scale) { return f32_to_f16(std::clamp(scale, -65504.0f, 65504.0f)); }

/// codes[i] = rne(x[i] / scale) in [low, high]; a zero scale gives zeros.
void quantize(const float* x, size_t n, float scale, float low, float high, int8_t* codes) {
  if (scale == 0.0f) {
    std::memset(codes, 0, n);
    return;
  }
  const float inverse = 1.0f / scale;  // finite: the smallest f16 is 2^-24
  for (size_t i = 0; i < n; ++i) codes[i] = int8_t(round_even(std::min(std::max(x[i] * inverse, low), high)));
}

uint16_t encode_int8_group(const float* x, size_t n, int8_t* codes) {
  const uint32_t amax = largest_magnitude(x, n);
  if (!is_finite_magnitude(amax)) {
    std::memset(codes, 0, n);
    return kNanScale;
  }
  const uint16_t scale = scale_to_f16(std::bit_cast<float>(amax) / 127.0f);
  quantize(x, n, f16_to_f32(scale), -127.0f, 127.0f, codes);
  return scale;
}

/// Writes ceil(n/8)·4 bytes. The value of largest magnitude becomes −8, the end of the range that has one code more.
uint16_t encode_int4_group(const float* x, size_t n, uint8_t* packed) {
  const size_t half = (n + 7) / 8 * 4;
  int8_t codes[kKvGroup] = {};
  uint16_t scale = kNanScale;
  const uint32_t amax = largest_magnitude(x, n);
  if (is_finite_magnitude(amax)) {
    float extreme = 0.0f;
    for (size_t i = n; i-- > 0;) {
      if ((std::bit_cast<uint32_t>(x[i]) & 0x7fffffffu) == amax) extreme = x[i];
    }
    scale = scale_to_f16(extreme / -8.0f);
    quantize(x, n, f16_to_f32(scale), -8.0f, 7.0f, codes);
  }
  for (size_t i = 0; i < half; ++i) packed[i] = uint8_t((codes[i] + 8) | (codes[half + i] + 8) << 4);
  return scale;
}

uint16_t encode_fp8_row(const float* x, size_t n, uint8_t* codes) {
  const uint32_t amax = largest_magnitude(x, n);
  if (!is_finite_magnitude(amax)) {
    std::memset(codes, 0, n);
    return kNanScale;
  }
  // 464 = 1.8125·2^8 still rounds to 448: a mantissa of at most 1.8125 fits with exponent − 8, a larger one needs one more.
  const int exponent = std::clamp(int(amax >> 23) - 127 - 8 + ((amax & 0x7fffffu) > 0x680000u ? 1 : 0), -24, 15);
  const float inverse = std::bit_cast<float>(uint32_t(127 - exponent) << 23);
  for (size_t i = 0; i < n; ++i) codes[i] = f32_to_e4m3(x[i] * inverse);
  return f32_to_f16(std::bit_cast<float>(uint32_t(127 + exponent) << 23));
}

/// Packs a row into cells and its scales into scales[group · kPiecePositions].
void encode_row(KvType type, const float* x, size_t dim, std::byte* cells, uint16_t* scales) {
  switch (type) {
    case KvType::kF32: std::memcpy(cells, x, dim * 4); return;
    case KvType::kF16:
      for (size_t i = 0; i < dim; ++i) {
        const uint16_t h = f32_to_f16(x[i]);
        std::memcpy(cells + 2 * i, &h, 2);
      }
      return;
    case KvType::kBF16:
      for (size_t i = 0; i < dim; ++i) {
        const uint16_t h = f32_to_bf16(x[i]);
        std::memcpy(cells + 2 * i, &h, 2);
      }
      return;
    case KvType::kFp8: scales[0] = encode_fp8_row(x, dim, reinterpret_cast<uint8_t*>(cells)); return;
    case KvType::kInt8:
      for (size_t d = 0; d < dim; d += kKvGroup) {
        const size_t n = std::min(kKvGroup, dim - d);
        scales[d / kKvGroup * kPiecePositions] = encode_int8_group(x + d, n, reinterpret_cast<int8_t*>(cells) + d);
      }
      for (size_t d = dim; d % 4; ++d) cells[d] = std::byte{0};
      return;
    case KvType::kInt4:
      for (size_t d = 0; d < dim; d += kKvGroup) {
        const size_t n = std::min(kKvGroup, dim - d);
        scales[d / kKvGroup * kPiecePositions] = encode_int4_group(x + d, n, reinterpret_cast<uint8_t*>(cells) + d / 2);
      }
      return;
  }
}

void decode_row(KvType type, const std::byte* cells, const uint16_t* scales, size_t dim, float* x) {
  const auto half_at = [&](size_t i) {
    uint16_t h;
    std::memcpy(&h, cells + 2 * i, 2);
    return h;
  };
  switch (type) {
    case KvType::kF32: std::memcpy(x, cells, dim * 4); return;
    case KvType::kF16:
      for (size_t i = 0; i < dim; ++i) x[i] = f16_to_f32(half_at(i));
      return;
    case KvType::kBF16:
      for (size_t i = 0; i < dim; ++i) x[i] = bf16_to_f32(half_at(i));
      return;
    case KvType::kFp8:
      for (size_t i = 0; i < dim; ++i) x[i] = e4m3_to_f32(uint8_t(cells[i])) * f16_to_f32(scales[0]);
      return;
    case KvType::kInt8:
      for (size_t i = 0; i < dim; ++i) x[i] = float(int8_t(cells[i])) * f16_to_f32(scales[i / kKvGroup * kPiecePositions]);
      return;
    case KvType::kInt4:
      for (size_t d = 0; d < dim; d += kKvGroup) {
        const size_t n = std::min(kKvGroup, dim - d), half = (n + 7) / 8 * 4;
        const float scale = f16_to_f32(scales[d / kKvGroup * kPiecePositions]);
        for (size_t i = 0; i < n; ++i) {
          const unsigned byte = unsigned(cells[d / 2 + i % half]);
          x[d + i] = float(int(i < half ? byte & 15 : byte >> 4) - 8) * scale;
        }
      }
      return;
  }
}

// A row of 4096 dimensions of f32; heads are far smaller.
constexpr size_t kMaxRowBytes = 16384;

uint16_t* scales_of(KvType type, std::byte* block, size_t dim, size_t position) {
  return reinterpret_cast<uint16_t*>(block + kPiecePositions * kv_row_size(type, dim).code_bytes) + position;
}
const uint16_t* scales_of(KvType type, const std::byte* block, size_t dim, size_t position) {
  return scales_of(type, const_cast<std::byte*>(block), dim, position);
}

/// Calls f(offset in the packed row, offset in the block) for each cell of a K row.
template <typename F>
void for_k_cells(KvType type, size_t dim, size_t position, F f) {
  const size_t cell = kv_cell_bytes(type), row_bytes = kv_row_size(type, dim).code_bytes;
  size_t at = position / kLanes * kLanes * row_bytes + position % kLanes * cell;
  for (size_t c = 0; c < row_bytes; c += cell, at += kLanes * cell) f(c, at, cell);
}

}  // namespace

void kv_store_k(KvType type, const float* row, size_t dim, std::byte* block, size_t position) {
  alignas(64) std::byte packed[kMaxRowBytes];
  encode_row(type, row, dim, packed, scales_of(type, block, dim, position));
  for_k_cells(type, dim, position, [&](size_t c, size_t at, size_t cell) { std::memcpy(block + at, packed + c, cell); });
}

void kv_store_v(KvType type, const float* row, size_t dim, std::byte* block, size_t position) {
  encode_row(type, row, dim, block + position * kv_row_size(type, dim).code_bytes, scales_of(type, block, dim, position));
}

void kv_load_k(KvType type, const std::byte* block, size_t dim, size_t position, float* row) {
  alignas(64) std::byte packed[kMaxRowBytes];
  for_k_cells(type, dim, position, [&](size_t c, size_t at, size_t cell) { std::memcpy(packed + c, block + at, cell); });
  decode_row(type, packed, scales_of(type, block, dim, position), dim, row);
}

void kv_load_v(KvType type, const std::byte* block, size_t dim, size_t position, float* row) {
  decode_row(type, block + position * kv_row_size(type, dim).code_bytes, scales_of(type, block, dim, position), dim, row);
}

}  // namespace quern
