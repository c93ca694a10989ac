// `quern bench`: speeds beside what the machine could do, each with a check that the tokens behind it are right.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

#include "bench_results.h"
#include "command.h"
#include "files.h"
#include "interrupt.h"
#include "model_options.h"
#include "report_text.h"

namespace quern::cli {
namespace {

constexpr size_t kNoCachePrompt = 16;
constexpr size_t kWidthDepth = 520;    // in the middle of a piece of the cache, so that no step has to ask for memory
constexpr size_t kWidthRepeats = 5;
constexpr size_t kProfileDepth = 512;
const std::vector<size_t> kWidths = {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32};
const std::vector<size_t> kDefaultDepths = {16, 512, 4096};

struct Options {
  ModelOptions model;
  std::vector<int> threads;
  std::vector<std::string> kv_types = {"f16"};
  std::vector<size_t> prompts, depths;
  size_t n_decode = 64, repeats = 3, no_cache_tokens = 0;
  bool widths = false, profile = false, json = false;
  std::string html;
  std::vector<TokenId> expect;
};

/// What is being measured, on a terminal; nothing in a pipe.
class Progress {
 public:
  explicit Progress(bool quiet) : shown_(!quiet && ::isatty(STDERR_FILENO)) {}
  ~Progress() { clear(); }
  void say(const std::string& what) const {
    if (shown_) fmt::print(stderr, "\r\033[Kmeasuring: {}", what);
  }
  void clear() const {
    if (shown_) fmt::print(stderr, "\r\033[K");
  }

 private:
  bool shown_;
};

/// A setting named twice is measured once.
template <typename T>
void drop_repeats(std::vector<T>& values) {
  auto end = values.begin();
  for (auto at = values.begin(); at != values.end(); ++at) {
    if (std::find(values.begin(), end, *at) == end) std::iter_swap(end++, at);
  }
  values.erase(end, values.end());
}

void check_sizes(Options& o, size_t n_ctx_train) {
  if (o.depths.empty() && o.prompts.empty()) {
    for (const size_t depth : kDefaultDepths) {
      if (depth + o.n_decode <= n_ctx_train) o.depths.push_back(depth);
    }
    if (o.depths.empty()) o.depths.push_back(std::max<size_t>(1, n_ctx_train - std::min(n_ctx_train, o.n_decode)));
  }
  if (o.model.kv_window) n_ctx_train = std::numeric_limits<size_t>::max();  // only distances count then
  for (const size_t depth : o.depths) {
    if (depth + std::max(o.n_decode, kCheckTokens) > n_ctx_train) {
      throw Error(ErrorKind::kUsage, fmt::format("--depths {} and {} decoded tokens need more than the {} tokens that the model was trained for", depth, std::max(o.n_decode, kCheckTokens), n_ctx_train));
    }
  }
  for (const size_t prompt : o.prompts) {
    if (prompt + kCheckTokens > n_ctx_train) throw Error(ErrorKind::kUsage, fmt::format("--prompt {} and {} tokens to check are more than the {} tokens that the model was trained for", prompt, kCheckTokens, n_ctx_train));
  }
  if (!o.expect.empty() && o.expect.size() != kCheckTokens) throw Error(ErrorKind::kUsage, fmt::format("--expect has {} ids; wanted are {}", o.expect.size(), kCheckTokens));
}

std::vector<BenchPoint> wanted_points(const Options& o) {
  std::vector<BenchPoint> points;
  const auto add = [&](int threads, const std::string& kv, size_t n_prompt, size_t n_decode) {
    BenchPoint point;
    point.threads = threads;
    point.kv_type = kv;
    point.n_prompt = n_prompt;
    point.n_decode = n_decode;
    points.push_back(std::move(point));
  };
  for (const int threads : o.threads) {
    for (const std::string& kv : o.kv_types) {
      for (const size_t prompt : o.prompts) add(threads, kv, prompt, 0);
      for (const size_t depth : o.depths) add(threads, kv, depth, o.n_decode);
    }
  }
  return points;
}

BenchSetting setting_of(const Options& o, int threads, const std::string& kv) {
  BenchSetting setting{o.model.session(0), &interrupt_flag()};
  setting.session.threads = threads;
  setting.session.k_type = setting.session.v_type = kv;
  return setting;
}

void measure_once(Engine& engine, const BenchSetting& setting, BenchPoint& point) {
  const std::vector<TokenId> prompt = bench_prompt(engine, point.n_prompt);
  const size_t n_decode = std::max(point.n_decode, kCheckTokens);
  const RunFigures run = measure_run(engine, setting, prompt, n_decode);
  point.prefill_tps.push_back(double(prompt.size()) * 1000 / run.prefill_ms);
  if (point.n_decode) point.decode_tps.push_back(double(n_decode) * 1000 / run.decode_ms);
  point.kv_bytes = run.kv_bytes;
  const std::vector<TokenId> first(run.tokens.begin(), run.tokens.begin() + kCheckTokens);
  if (point.tokens.empty()) point.tokens = first;
  point.is_repeatable &= point.tokens == first;
}

/// The machine's limits, a round of them for each thread count; results get the medians so far.
class MachineRounds {
 public:
  MachineRounds(const Options& o, const Engine& engine) : o_(o), engine_(engine), read_(o.threads.size()), multiply_(o.threads.size()) {}

  void measure(const Progress& progress, BenchResults& results) {
    progress.say("the machine");
    results.machine.resize(o_.threads.size());
    for (size_t i = 0; i < o_.threads.size(); ++i) {
      MachineFigures figures = measure_machine(engine_, o_.threads[i], &interrupt_flag());
      read_[i].push_back(figures.read_gb_per_s);
      multiply_[i].push_back(figures.int8_gop_per_s);
      figures.read_gb_per_s = median(read_[i]);
      figures.int8_gop_per_s = median(multiply_[i]);
      results.machine[i] = figures;
    }
  }

 private:
  const Options& o_;
  const Engine& engine_;
  std::vector<std::vector<double>> read_, multiply_;  ///< [thread count][round]
};

/// Repeats are the outer loop: what is compared is measured in turns, the machine too, whose speed drifts as that of the runs does.
void measure_points(const Options& o, Engine& engine, MachineRounds& machine, const Progress& progress, BenchResults& results) {
  results.points = wanted_points(o);
  for (size_t repeat = 0; repeat < o.repeats; ++repeat) {
    if (repeat > 0) machine.measure(progress, results);
    for (BenchPoint& point : results.points) {
      progress.say(fmt::format("{}, {}, {} tokens, round {} of {}", counted(size_t(point.threads), "thread"), point.kv_type, point.n_prompt, repeat + 1, o.repeats));
      measure_once(engine, setting_of(o, point.threads, point.kv_type), point);
    }
  }
  for (BenchPoint& point : results.points) {
    progress.say(fmt::format("checking {}, {}, {} tokens", counted(size_t(point.threads), "thread"), point.kv_type, point.n_prompt));
    const auto same = std::find_if(results.points.begin(), results.points.end(), [&](const BenchPoint& p) { return p.kv_type == point.kv_type && p.n_prompt == point.n_prompt && !p.expected.empty(); });
    if (!o.expect.empty()) point.expected = o.expect;
    else if (same != results.points.end()) point.expected = same->expected;
    else point.expected = plain_tokens(engine, setting_of(o, point.threads, point.kv_type), bench_prompt(engine, point.n_prompt), kCheckTokens);
  }
}

void measure_curves(const Options& o, Engine& engine, const Progress& progress, BenchResults& results) {
  const size_t n_ctx = engine.info().n_ctx_train;
  const BenchSetting setting = setting_of(o, results.threads, results.kv_type);
  if (o.widths) {
    progress.say("steps of 1 to 32 tokens");
    BenchWidths widths;
    for (const size_t n : kWidths) {
      if (n < n_ctx) widths.n_tokens.push_back(n);
    }
    widths.depth = std::min(kWidthDepth, n_ctx - widths.n_tokens.back());
    widths.ms = measure_widths(engine, setting, bench_prompt(engine, widths.depth), widths.n_tokens, kWidthRepeats);
    results.widths = std::move(widths);
  }
  if (o.no_cache_tokens) {
    progress.say("cache against no cache");
    const size_t n_prompt = std::min(kNoCachePrompt, n_ctx / 2);
    results.no_cache = measure_no_cache(engine, setting, bench_prompt(engine, n_prompt), std::min(o.no_cache_tokens, n_ctx - n_prompt));
  }
  if (o.profile) {
    progress.say("stages");
    const size_t n_decode = std::min(o.n_decode, n_ctx / 2);
    results.profile_depth = std::min(kProfileDepth, n_ctx - n_decode);
    results.profile = measure_stages(engine, setting, bench_prompt(engine, results.profile_depth), n_decode);
  }
}

void run(Options& o) {
  interrupt_flag();
  if (!o.html.empty()) check_page(o.html);
  const auto engine = o.model.load();
  if (o.threads.empty()) o.threads = {engine->threads()};
  drop_repeats(o.threads);
  drop_repeats(o.kv_types);
  drop_repeats(o.prompts);
  drop_repeats(o.depths);
  check_sizes(o, engine->info().n_ctx_train);
  BenchResults results;
  results.model = engine->info();
  results.isa = engine->isa();
  results.work = model_work(*engine);
  results.kv_type = o.kv_types[0];
  results.threads = *std::max_element(o.threads.begin(), o.threads.end());
  bool is_stopped = false;
  {
    const Progress progress(o.model.quiet);
    MachineRounds machine(o, *engine);
    machine.measure(progress, results);
    // Bring the weights into memory and the threads to life; not counted.
    for (const int threads : o.threads) measure_run(*engine, setting_of(o, threads, o.kv_types[0]), bench_prompt(*engine, 4), 1);
    try {
      measure_points(o, *engine, machine, progress, results);
      measure_curves(o, *engine, progress, results);
    } catch (const Error& error) {  // what has been measured by now took minutes: it is shown
      if (error.kind() != ErrorKind::kInterrupted) throw;
      std::erase_if(results.points, [](const BenchPoint& p) { return p.prefill_tps.empty(); });
      if (results.points.empty()) throw;
      is_stopped = true;
    }
  }
  if (o.json) print_bench_json(results, stdout);
  else print_bench_table(results, stdout);
  if (!o.html.empty()) write_page(o.html, bench_html(results));
  if (results.any_failed()) throw Error(ErrorKind::kRuntime, "the tokens of a measured run are not those that were expected: its speed means nothing");
  if (is_stopped) throw Error(ErrorKind::kInterrupted, "interrupted: only what was measured by then is shown");
}

}  // namespace

void add_bench(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("bench", "Speeds of prefill and decode, and how near they come to the machine's limits");
  add_file_options(*command, o->model);
  command->add_option("-t,--threads", o->threads, "Thread counts to measure (default: the physical cores this process may use)")->delimiter(',')->check(CLI::Range(1, 1024));
  command->add_option("--depths", o->depths, "Tokens in the cache before decoding (default 16,512,4096); prefill is reading them")->delimiter(',')->check(CLI::Range(1, 1 << 30));
  command->add_option("--gen", o->n_decode, "Tokens to decode at each depth (default 64)")->check(CLI::Range(1, 1 << 30));
  command->add_option("--prompt", o->prompts, "Prompts to measure without decoding")->delimiter(',')->check(CLI::Range(1, 1 << 30));
  command->add_option("--kv-types", o->kv_types, "Element types of the cache to measure: f32 f16 bf16 int8 fp8 int4 (default f16)")->delimiter(',');
  command->add_option("--batch", o->model.batch, "Most tokens of one prefill step (default 512)")->check(CLI::Range(1, 65536));
  add_policy_options(*command, o->model);
  command->add_option("-r,--repeats", o->repeats, "Repeats, in turns over the settings; medians are shown (default 3)")->check(CLI::Range(1, 1000));
  command->add_flag("--widths", o->widths, "Also the cost of one step of 1 to 32 tokens");
  command->add_flag("--no-cache{128}", o->no_cache_tokens, "Also generate so many tokens (default 128) computing everything again for each")->check(CLI::Range(1, 1 << 20));
  command->add_flag("--profile", o->profile, "Also the share of each stage of a step");
  command->add_option("--expect", o->expect, "The first 12 token ids that every run has to give, in place of those of a plain run")->delimiter(',');
  command->add_flag("--json", o->json, "JSON, one object a line, in place of the table");
  command->add_option("--html", o->html, "Write a page with plots of all of this (includes --widths, --no-cache, --profile)");
  command->callback([o] {
    if (!o->html.empty()) {
      o->widths = o->profile = true;
      if (!o->no_cache_tokens) o->no_cache_tokens = 128;
    }
    run(*o);
  });
}

}  // namespace quern::cli
