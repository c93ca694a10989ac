// Measuring: how fast the machine is, how fast a model runs on it, and where the time goes. Plain numbers; a front end draws them.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "quern/engine.h"

namespace quern {

/// What the machine does at most with this many threads, measured by loops that do nothing else.
struct MachineFigures {
  int threads = 0;
  uint64_t buffer_bytes = 0;       ///< of the reading loop: at least four times the last cache
  double read_gb_per_s = 0;        ///< median of the passes
  double int8_gop_per_s = 0;       ///< the active instruction set's int8 multiply-adds, two operations each
};

/// What a token costs at least: the weights that a decoded token reads, and the multiply-adds of products.
struct ModelWork {
  uint64_t weight_bytes = 0;
  uint64_t layer_macs = 0;         ///< of one token in the layers' products (attention not counted)
  uint64_t output_macs = 0;        ///< of one row of logits
};

struct BenchSetting {
  SessionOptions session;                        ///< n_ctx is what each measurement needs
  const std::atomic<bool>* cancelled = nullptr;  ///< @throws Error(kInterrupted) from whatever is being measured
};

/// Reading a prompt into an empty cache, then greedy decoding behind it, end tokens ignored.
struct RunFigures {
  double prefill_ms = 0, decode_ms = 0;
  std::vector<TokenId> tokens;     ///< decoded
  uint64_t kv_bytes = 0;           ///< K and V that a token halfway through decoding reads
};

struct StageFigure {
  std::string name;
  double ms = 0;                   ///< of worker 0, waiting at barriers not included
};
struct StageFigures {
  double total_ms = 0;             ///< of all tokens measured
  size_t n_tokens = 0;
  std::vector<StageFigure> stages; ///< they add up to total_ms
};

/// Milliseconds from the first token to each one, with the cache and without: without it every token computes all before it.
struct NoCacheFigures {
  size_t n_prompt = 0;
  std::vector<double> cached_ms, recomputed_ms;  ///< [n]
  bool same_tokens = false;
};

inline constexpr size_t kCheckTokens = 12;  ///< greedy tokens that go with every speed

MachineFigures measure_machine(const Engine& engine, int threads, const std::atomic<bool>* cancelled = nullptr);
ModelWork model_work(const Engine& engine);
/// English prose as tokens, exactly n_tokens of them.
std::vector<TokenId> bench_prompt(const Engine& engine, size_t n_tokens);

RunFigures measure_run(Engine& engine, const BenchSetting& setting, std::span<const TokenId> prompt, size_t n_decode);
/// The first `n` greedy tokens behind the prompt as a plain run gives them: one thread, a new session, chunks of another size.
std::vector<TokenId> plain_tokens(Engine& engine, const BenchSetting& setting, std::span<const TokenId> prompt, size_t n);

/// Milliseconds of one forward step of widths[i] tokens behind `prompt`, logits of all of them wanted; medians of n_repeats in turns.
std::vector<double> measure_widths(Engine& engine, const BenchSetting& setting, std::span<const TokenId> prompt, std::span<const size_t> widths, size_t n_repeats);
NoCacheFigures measure_no_cache(Engine& engine, const BenchSetting& setting, std::span<const TokenId> prompt, size_t n_tokens);

/// Stage by stage: reading the prompt, then n_decode tokens behind it with the default sampler.
struct ProfileFigures {
  StageFigures prefill, decode;
};
ProfileFigures measure_stages(Engine& engine, const BenchSetting& setting, std::span<const TokenId> prompt, size_t n_decode);

double median(std::vector<double> values);

}  // namespace quern
