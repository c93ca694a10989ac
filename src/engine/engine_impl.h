// Behind the public face: what an Engine and a Session hold.
#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/aligned.h"
#include "engine/forward.h"
#include "engine/model.h"
#include "kv/cache.h"
#include "kv/ring_snapshot.h"
#include "quern/engine.h"

namespace quern {

struct Engine::Impl {
  EngineOptions options;
  Model model;
  const kernels::Kernels& kernels;
  int n_threads;
  ModelInfo info;
  std::once_flag paged_in;

  Impl(const std::string& path, const EngineOptions& options);
  /// Before the first step: maps all weights, with all threads. Returns the milliseconds it took; later calls do nothing.
  double page_in();
};

struct Session::Impl {
  std::shared_ptr<Engine> engine;
  SessionOptions options;
  KvCache cache;
  std::vector<RopeTable> ropes;
  ops::Workspace workspace;
  std::vector<TokenId> tokens;         ///< what the cache holds
  std::vector<RingSnapshot> marks;     ///< ascending places, all of them beginnings of `tokens`
  AlignedBuffer<float> logits;         ///< [n_vocab]
  size_t logits_at = 0;                ///< `logits` are those after so many tokens; 0: of nothing
  Timings timings;
  size_t n_steps = 0;
  StageClock* clock = nullptr;         ///< measures the steps when set

  Impl(std::shared_ptr<Engine> engine, const SessionOptions& options, const KvLayoutOptions& layout);

  /// Before any step: what is not the model's arithmetic is done and timed apart.
  void page_in();
  /// Holds nothing afterwards.
  void forget();
  /// To the last mark at or before `keep`, or to nothing; returns how many tokens are held then.
  size_t back_to_mark(size_t keep);
  /// The policy forgets tokens, so that the context never fills up.
  bool is_endless() const { return cache.layout().options().policy.window > 0; }
  const Engine::Impl& engine_impl() const { return engine->impl(); }
  int n_threads() const { return options.threads > 0 ? options.threads : engine_impl().n_threads; }
  /// Computes `chunk` behind the tokens held; logits of its last n_logits go to `out`. Where a cache that evicts by use comes to a
  /// decision within it, it is computed in parts; on kCancelled those that were complete stay.
  StepStatus step(std::span<const TokenId> chunk, size_t n_logits, float* out, const std::atomic<bool>* cancelled);

 private:
  StepStatus run_step(std::span<const TokenId> chunk, size_t n_logits, float* out, const std::atomic<bool>* cancelled);
};

/// The layout options that a session of this model gets. @throws Error(kUsage)
KvLayoutOptions layout_options(const Engine::Impl& engine, const SessionOptions& options);
/// "full", "window 512, sinks 4", …
std::string policy_name(const KvPolicy& policy);
std::vector<KvLayerGeometry> kv_geometry(const ModelParams& params);
KvReport make_report(const ModelParams& params, const KvLayout& layout, size_t n_tokens, uint64_t committed_bytes);

}  // namespace quern
