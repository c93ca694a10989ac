// The one forward pass: any number of sequences, any number of tokens each. A prompt chunk is one segment of many tokens,
// decoding one segment of one token, a batch several segments; the arithmetic does not know the difference.
#pragma once
#include <atomic>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "engine/model.h"
#include "engine/stage_clock.h"
#include "kernels/kernels.h"
#include "kv/cache.h"
#include "model/rope.h"
#include "ops/workspace.h"

namespace quern {

struct Segment {
  KvCache* cache = nullptr;             ///< prepared for first_pos + tokens.size() positions
  std::span<const TokenId> tokens;      ///< ≥ 1
  size_t first_pos = 0;
  size_t n_logits = 0;                  ///< logits of the last n_logits tokens are wanted
  std::span<const RopeTable> ropes;     ///< the session's tables, one per ModelParams::ropes
};

struct ForwardOptions {
  int n_threads = 1;
  bool float_activations = false;
  const std::atomic<bool>* cancelled = nullptr;   ///< polled at each chunk of work
  StageClock* clock = nullptr;          ///< adds up where worker 0 spends its time
};

enum class ForwardStatus { kDone, kCancelled, kNonFinite };

struct ForwardResult {
  ForwardStatus status = ForwardStatus::kDone;
  std::string where;                    ///< kNonFinite: the layer and stage
};

/// One step. `logits` = [Σ n_logits, n_vocab], in the order of segments and positions. On kDone the caches hold the new rows
/// (the caller advances them); otherwise they are as before from the caller's point of view.
ForwardResult forward(const Model& model, const kernels::Kernels& kernels, ops::Workspace& workspace, std::span<const Segment> segments,
                      const ForwardOptions& options, float* logits);

}  // namespace quern
