// A 64-bit checksum of long runs of bytes, for telling a damaged file from a whole one. It guards against accidents, not against
// people: whoever can write the file can write its checksum.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/check.h"

namespace quern {

/// Four lanes of two multiplications over 8-byte words. Every step is a bijection of the word and of the lane, so that a change within
/// one word always changes the result; the second multiplication is there because the first leaves a flipped top bit alone, where
/// another flipped bit could undo it.
class Checksum {
 public:
  static constexpr size_t kUnitBytes = 32;

  /// `bytes`: a multiple of kUnitBytes.
  void update(std::span<const std::byte> bytes) {
    QUERN_CHECK(bytes.size() % kUnitBytes == 0, "{} bytes", bytes.size());
    for (size_t at = 0; at < bytes.size(); at += kUnitBytes) {
      uint64_t words[4];
      std::memcpy(words, bytes.data() + at, kUnitBytes);
      for (size_t i = 0; i < 4; ++i) lanes_[i] = mix(lanes_[i] ^ words[i]);
    }
    n_bytes_ += bytes.size();
  }

  uint64_t value() const {
    uint64_t h = n_bytes_;
    for (const uint64_t lane : lanes_) h = mix(h ^ lane);
    return h;
  }

 private:
  static uint64_t mix(uint64_t x) {
    x *= 0x9e3779b97f4a7c15ull;  // odd: multiplying loses nothing
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93ull;
    return x ^ (x >> 29);
  }
  uint64_t lanes_[4] = {1, 2, 3, 4};
  uint64_t n_bytes_ = 0;
};

}  // namespace quern
