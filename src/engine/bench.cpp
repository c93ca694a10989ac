// What `quern bench` measures. Speeds come from the same Session and Sampler that a user's run goes through.
#include "quern/bench.h"

#include <algorithm>
#include <chrono>

#include "base/check.h"
#include "engine/engine_impl.h"
#include "engine/sampler.h"

namespace quern {
namespace {

constexpr size_t kPlainBatch = 96;       ///< chunks of a plain run: not what is measured, and no divisor of a piece
constexpr const char* kProse =
    "The mill stood where the stream leaves the forest, and for as long as anyone could remember it had ground the grain of three villages. "
    "In autumn the carts came before sunrise; the miller weighed each sack, wrote a number in his book, and sent the water over the wheel. "
    "First the upper stone was lifted by the breadth of a finger, then the hopper was opened, and the flour began to fall, warm and slightly "
    "sweet. A coarse setting was quick and good for animals, a fine one slow and good for bread. What the children liked most was the bell: it "
    "rang when the hopper ran empty, because stones that touch each other spoil within minutes. One winter the stream froze and the wheel "
    "stood still for six weeks. The miller cut new furrows into the stones, mended the belts, and calculated: how much grain was left, how many "
    "people there were, and how long it would have to last. He was wrong by two days, which was close enough. ";

using Clock = std::chrono::steady_clock;
double ms_since(Clock::time_point start) { return std::chrono::duration<double, std::milli>(Clock::now() - start).count(); }

SamplingOptions greedy() {
  SamplingOptions options;
  options.temperature = 0;
  return options;
}

std::unique_ptr<Session> open_session(Engine& engine, const BenchSetting& setting, size_t n_tokens) {
  SessionOptions options = setting.session;
  options.n_ctx = n_tokens;
  return engine.new_session(options);
}

void check_done(StepStatus status) {
  if (status == StepStatus::kCancelled) throw_error(ErrorKind::kInterrupted, "interrupted");
}

void forget_all(Session& session) {
  session.impl().cache.rewind(0);
  session.impl().tokens.clear();
}

/// `steps` greedy steps behind what the session holds; the tokens that were fed.
std::vector<TokenId> decode_greedily(const Engine& engine, Session& session, const BenchSetting& setting, size_t steps) {
  Sampler sampler(greedy(), engine.info().n_vocab, *engine.impl().kernels.vector);
  std::vector<TokenId> tokens;
  for (size_t i = 0; i < steps; ++i) {
    tokens.push_back(sampler.sample(session.logits(), {}));
    check_done(session.append(tokens.back(), setting.cancelled));
  }
  return tokens;
}

StageFigures stage_figures(const StageClock& clock, double total_ms, double sampling_ms, size_t n_tokens) {
  StageFigures figures{total_ms, n_tokens, {}};
  double rest_ms = total_ms;
  const auto add = [&](const char* name, double ms) {
    figures.stages.push_back({name, ms});
    rest_ms -= ms;
  };
  for (size_t i = 0; i < clock.busy_ns.size(); ++i) add(kClockStageNames[i], double(clock.busy_ns[i]) * 1e-6);
  if (sampling_ms > 0) add("sampling", sampling_ms);
  add("waiting at barriers", double(clock.waited_ns) * 1e-6);
  figures.stages.push_back({"between steps", std::max(0.0, rest_ms)});
  return figures;
}

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

ModelWork model_work(const Engine& engine) {
  ModelWork work;
  const ModelWeights& weights = engine.impl().model.weights;
  for (const Weight* w : step_weights(weights)) {
    work.weight_bytes += w->row_bytes * w->n_rows;
    (w == &weights.output ? work.output_macs : work.layer_macs) += w->n_rows * w->n_cols;
  }
  for (size_t i = 0; i < weights.layers.size(); ++i) {
    const Experts& experts = weights.layers[i].experts;
    const size_t n_used = engine.impl().model.params.layers[i].n_experts_used;
    for (const std::vector<Weight>* stack : {&experts.gate, &experts.up, &experts.down}) {
      if (stack->empty()) continue;
      work.weight_bytes += n_used * stack->front().row_bytes * stack->front().n_rows;
      work.layer_macs += n_used * stack->front().n_rows * stack->front().n_cols;
    }
  }
  return work;
}

std::vector<TokenId> bench_prompt(const Engine& engine, size_t n_tokens) {
  std::vector<TokenId> tokens = engine.tokenize(kProse, true, false);
  const std::vector<TokenId> more = engine.tokenize(kProse, false, false);
  while (tokens.size() < n_tokens) tokens.insert(tokens.end(), more.begin(), more.end());
  tokens.resize(n_tokens);
  return tokens;
}

RunFigures measure_run(Engine& engine, const BenchSetting& setting, std::span<const TokenId> prompt, size_t n_decode) {
  const auto session = open_session(engine, setting, prompt.size() + n_decode);
  RunFigures figures;
  check_done(session->sync(prompt, setting.cancelled));
  figures.prefill_ms = session->timings().prefill_ms;
  const auto start = Clock::now();
  figures.tokens = decode_greedily(engine, *session, setting, n_decode);
  figures.decode_ms = ms_since(start);
  figures.kv_bytes = make_report(engine.impl().model.params, session->impl().cache.layout(), prompt.size() + (n_decode + 1) / 2, 0).used_bytes;
  return figures;
}

std::vector<TokenId> plain_tokens(Engine& engine, const BenchSetting& setting, std::span<const TokenId> prompt, size_t n) {
  BenchSetting plain = setting;
  plain.session.threads = 1;
  plain.session.batch = kPlainBatch;
  const auto session = open_session(engine, plain, prompt.size() + n);
  check_done(session->sync(prompt, setting.cancelled));
  return decode_greedily(engine, *session, plain, n);
}

std::vector<double> measure_widths(Engine& engine, const BenchSetting& setting, std::span<const TokenId> prompt, std::span<const size_t> widths, size_t n_repeats) {
  const size_t widest = *std::max_element(widths.begin(), widths.end());
  const auto session = open_session(engine, setting, prompt.size() + widest);
  Session::Impl& impl = session->impl();
  const std::vector<TokenId> more = bench_prompt(engine, widest);
  AlignedBuffer<float> logits(widest * engine.info().n_vocab);
  std::vector<std::vector<double>> times(widths.size());
  check_done(session->sync(prompt, setting.cancelled));
  for (size_t repeat = 0; repeat <= n_repeats; ++repeat) {  // the first round warms up
    for (size_t i = 0; i < widths.size(); ++i) {
      const auto start = Clock::now();
      check_done(impl.step(std::span(more).first(widths[i]), widths[i], logits.data(), setting.cancelled));
      if (repeat > 0) times[i].push_back(ms_since(start));
      if (!impl.cache.rewind(prompt.size())) throw_error(ErrorKind::kRuntime, "the cache does not rewind by {} tokens", widths[i]);
      impl.tokens.resize(prompt.size());
    }
  }
  std::vector<double> medians;
  for (const std::vector<double>& t : times) medians.push_back(median(t));
  return medians;
}

NoCacheFigures measure_no_cache(Engine& engine, const BenchSetting& setting, std::span<const TokenId> prompt, size_t n_tokens) {
  NoCacheFigures figures;
  figures.n_prompt = prompt.size();
  const auto session = open_session(engine, setting, prompt.size() + n_tokens);
  Sampler sampler(greedy(), engine.info().n_vocab, *engine.impl().kernels.vector);
  const auto run = [&](bool cached, std::vector<double>& ms) {
    std::vector<TokenId> tokens(prompt.begin(), prompt.end());
    forget_all(*session);
    const auto start = Clock::now();
    for (size_t i = 0; i < n_tokens; ++i) {
      if (!cached) forget_all(*session);
      check_done(session->sync(tokens, setting.cancelled));
      tokens.push_back(sampler.sample(session->logits(), {}));
      ms.push_back(ms_since(start));
    }
    return tokens;
  };
  const std::vector<TokenId> cached = run(true, figures.cached_ms);
  figures.same_tokens = run(false, figures.recomputed_ms) == cached;
  return figures;
}

ProfileFigures measure_stages(Engine& engine, const BenchSetting& setting, std::span<const TokenId> prompt, size_t n_decode) {
  const auto session = open_session(engine, setting, prompt.size() + n_decode);
  ProfileFigures figures;
  StageClock clock;
  session->impl().clock = &clock;
  auto start = Clock::now();
  check_done(session->sync(prompt, setting.cancelled));
  figures.prefill = stage_figures(clock, ms_since(start), 0, prompt.size());

  clock = {};
  double sampling_ms = 0;
  Sampler sampler({}, engine.info().n_vocab, *engine.impl().kernels.vector);
  start = Clock::now();
  for (size_t i = 0; i < n_decode; ++i) {
    const auto before = Clock::now();
    const TokenId token = sampler.sample(session->logits(), session->tokens());
    sampling_ms += ms_since(before);
    check_done(session->append(token, setting.cancelled));
  }
  figures.decode = stage_figures(clock, ms_since(start), sampling_ms, n_decode);
  return figures;
}

}  // namespace quern
