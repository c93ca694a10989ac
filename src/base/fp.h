// Scalar conversions of the small float types. These are the definitions: SIMD code must give the same bits.
// IEEE binary16 with round-to-nearest-even and subnormals kept; bfloat16 with round-to-nearest-even; FP8 E4M3 (the "fn"
// variant of 2209.05433: no infinities, 448 the largest), saturating and never NaN on encode of a finite number.
#pragma once
#include <bit>
#include <cstdint>

/// Always inlined: an out-of-line copy in an object of one instruction set could be the one that the linker keeps for all.
#define QUERN_FP_INLINE [[gnu::always_inline]] inline

namespace quern {

QUERN_FP_INLINE float f16_to_f32(uint16_t h) {
  const uint32_t sign = uint32_t(h & 0x8000u) << 16;
  const uint32_t exponent = (h >> 10) & 0x1f;
  uint32_t mantissa = h & 0x3ffu;
  if (exponent == 0x1f) {  // infinities and NaN; hardware quiets a signalling NaN, so this does too
    return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13) | (mantissa ? 0x400000u : 0));
  }
  if (exponent == 0) {  // zero and subnormals: exact in float
    const float magnitude = float(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

QUERN_FP_INLINE uint16_t f32_to_f16(float f) {
  const uint32_t bits = std::bit_cast<uint32_t>(f);
  const uint16_t sign = uint16_t((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return uint16_t(sign | 0x7e00u | ((magnitude >> 13) & 0x1ffu));  // NaN, quieted
  if (magnitude >= 0x477ff000u) return uint16_t(sign | 0x7c00u);                                  // rounds to infinity
  if (magnitude < 0x38800000u) {  // subnormal or zero: let a float addition round at the right bit
    const float scaled = std::bit_cast<float>(magnitude) + 0.5f;  // ulp of 0.5 is 2^-24, the subnormal step
    return uint16_t(sign | (std::bit_cast<uint32_t>(scaled) - 0x3f000000u));
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return uint16_t(sign | ((rounded - 0x38000000u) >> 13));
}

QUERN_FP_INLINE float bf16_to_f32(uint16_t h) { return std::bit_cast<float>(uint32_t(h) << 16); }

QUERN_FP_INLINE uint16_t f32_to_bf16(float f) {
  const uint32_t bits = std::bit_cast<uint32_t>(f);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return uint16_t((bits >> 16) | 0x40u);
  return uint16_t((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

QUERN_FP_INLINE float e4m3_to_f32(uint8_t b) {
  const uint32_t sign = uint32_t(b & 0x80u) << 24;
  const uint32_t exponent = (b >> 3) & 0xf;
  const uint32_t mantissa = b & 7u;
  if (exponent == 0xf && mantissa == 7) return std::bit_cast<float>(sign | 0x7fc00000u);
  if (exponent == 0) return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(float(mantissa) * 0x1p-9f));
  return std::bit_cast<float>(sign | ((exponent + 120) << 23) | (mantissa << 20));
}

/// Round to nearest even, saturating at ±448 (infinities too); NaN becomes the E4M3 NaN.
QUERN_FP_INLINE uint8_t f32_to_e4m3(float f) {
  const uint32_t bits = std::bit_cast<uint32_t>(f);
  const uint8_t sign = uint8_t((bits >> 24) & 0x80u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return uint8_t(sign | 0x7fu);
  if (magnitude >= 0x43e00000u) return uint8_t(sign | 0x7eu);  // >= 448
  if (magnitude < 0x3c800000u) {                               // below 2^-6: subnormal step 2^-9
    const float scaled = std::bit_cast<float>(magnitude) + 16384.0f;  // ulp of 2^14 is 2^-9
    return uint8_t(sign | (std::bit_cast<uint32_t>(scaled) - 0x46800000u));
  }
  const uint32_t rounded = magnitude + 0x7ffffu + ((magnitude >> 20) & 1u);
  const uint32_t code = (rounded - 0x3c000000u) >> 20;
  return uint8_t(sign | (code > 0x7eu ? 0x7eu : code));
}

}  // namespace quern

#undef QUERN_FP_INLINE
