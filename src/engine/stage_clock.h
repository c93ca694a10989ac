// Where the time of a forward step goes: worker 0 looks at the clock whenever it enters a stage. A step that is not measured has
// no clock, and pays one comparison with null a stage.
#pragma once
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace quern {

enum class ClockStage : uint8_t { kEmbed, kNorm, kQkv, kRope, kAttention, kAttnOut, kRouter, kFfnUp, kFfnDown, kOutput };
inline constexpr std::array kClockStageNames = {"embed", "norm, activation, quantize", "qkv", "rope", "attention", "attn_out", "experts chosen, summed", "ffn_up", "ffn_down", "output"};

class StageClock {
 public:
  void start() { since_ = now_ns(); waited_before_ = waited_ns; current_ = ClockStage::kEmbed; }
  /// What passed since the last call belongs to the stage that was entered then, less what was spent at barriers.
  void enter(ClockStage stage) {
    const uint64_t now = now_ns();
    busy_ns[size_t(current_)] += (now - since_) - (waited_ns - waited_before_);
    since_ = now;
    waited_before_ = waited_ns;
    current_ = stage;
  }
  void stop() { enter(ClockStage::kEmbed); }

  std::array<uint64_t, kClockStageNames.size()> busy_ns{};
  uint64_t waited_ns = 0;   ///< at barriers; the worker adds to it

 private:
  static uint64_t now_ns() { return uint64_t(std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1)); }

  ClockStage current_ = ClockStage::kEmbed;
  uint64_t since_ = 0, waited_before_ = 0;
};

}  // namespace quern
