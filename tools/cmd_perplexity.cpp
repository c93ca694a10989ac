// `quern perplexity`: what a text costs a model, and what a KV cache type costs in quality.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "command.h"
#include "files.h"
#include "interrupt.h"
#include "model_options.h"
#include "perplexity_html.h"
#include "quern/perplexity.h"
#include "report_text.h"
#include "stream_report.h"

namespace quern::cli {
namespace {

constexpr double kWorthAWarning = 1.10;  // perplexity ratio

struct Options {
  ModelOptions model;
  std::string file, html;
  std::vector<std::string> compare, stream;
  int64_t n_chunks = 0, n_tokens = 0, stride = 100;
  bool apart = false, json = false;
};

std::string pair_name(const KvTypePair& types) { return types.k == types.v ? types.k : types.k + ":" + types.v; }

/// The types, and what the cache forgets where it forgets anything.
std::string cache_name(const CacheQuality& c) { return pair_name(c.types) + (c.policy == "full" ? "" : " (" + c.policy + ")"); }

/// TYPE, or K:V. With --apart each TYPE also for the keys and for the values alone.
std::vector<KvTypePair> parse_pairs(const Options& o) {
  std::vector<KvTypePair> pairs;
  for (const std::string& entry : o.compare) {
    const size_t colon = entry.find(':');
    if (colon != std::string::npos) {
      pairs.push_back({entry.substr(0, colon), entry.substr(colon + 1)});
      continue;
    }
    pairs.push_back({entry, entry});
    if (!o.apart || entry == "f32") continue;
    pairs.push_back({entry, "f32"});
    pairs.push_back({"f32", entry});
  }
  return pairs;
}

void show_progress(size_t done, size_t total) {
  if (!::isatty(STDERR_FILENO)) return;
  fmt::print(stderr, "\rchunk {} of {}{}", done, total, done == total ? "\r\033[K" : "");
  std::fflush(stderr);
}

void print_table(const PerplexityReport& report, bool compare) {
  fmt::print("{} tokens scored: {} chunks of {}, the second half of each\n", report.n_scored, report.n_chunks, report.n_ctx);
  if (!compare) {
    const CacheQuality& c = report.caches[0];
    fmt::print("PPL {:.4f} +/- {:.4f} (KV cache {}, {} bytes per token)\n", c.perplexity, c.perplexity_error, cache_name(c), with_commas(c.bytes_per_token));
    return;
  }
  size_t width = 10;
  for (const CacheQuality& c : report.caches) width = std::max(width, cache_name(c).size());
  fmt::print("{:<{}} {:>12} {:>6} {:>19} {:>17} {:>9} {:>9} {:>9} {:>8} {:>9}\n", "cache", width, "bytes/token", "bits", "PPL", "ratio", "KL mean", "KL 99 %", "KL max", "top-1 %", "RMS logit");
  for (const CacheQuality& c : report.caches) {
    fmt::print("{:<{}} {:>12} {:>6.2f} {:>10.4f} +/-{:>5.2f} {:>8.4f} +/-{:.4f} {:>9.6f} {:>9.5f} {:>9.4f} {:>8.2f} {:>9.4f}\n", cache_name(c), width, with_commas(c.bytes_per_token), c.bits_per_value, c.perplexity,
               c.perplexity_error, c.ratio, c.ratio_error, c.kl_mean, c.kl_p99, c.kl_max, 100 * c.top1_agreement, c.rms_logit_error);
  }
}

nlohmann::ordered_json to_json(const PerplexityReport& report, const Engine& engine, const Options& o) {
  nlohmann::ordered_json json = {{"model", engine.info().name}, {"act", o.model.act}, {"n_ctx", report.n_ctx}, {"chunks", report.n_chunks}, {"scored_tokens", report.n_scored}};
  for (const CacheQuality& c : report.caches) {
    nlohmann::ordered_json row = {{"k_type", c.types.k}, {"v_type", c.types.v}, {"policy", c.policy}, {"bytes_per_token", c.bytes_per_token}, {"bits_per_value", c.bits_per_value}, {"nll", c.nll}, {"ppl", c.perplexity}, {"ppl_error", c.perplexity_error}};
    if (!o.compare.empty()) {
      row.update({{"ppl_ratio", c.ratio}, {"ppl_ratio_error", c.ratio_error}, {"kl_mean", c.kl_mean}, {"kl_p99", c.kl_p99}, {"kl_max", c.kl_max}, {"top1_agreement", c.top1_agreement}, {"rms_logit_error", c.rms_logit_error}});
    }
    json["caches"].push_back(std::move(row));
  }
  return json;
}

void warn_of_bad_types(const PerplexityReport& report) {
  for (const CacheQuality& c : report.caches) {
    if (c.ratio <= kWorthAWarning || c.policy != "full") continue;
    fmt::print(stderr, "quern: warning: a cache of {} raises this model's perplexity by {:.0f} %; its keys need more bits: try --k-type int8 --v-type int4\n", pair_name(c.types), 100 * (c.ratio - 1));
  }
}

std::string model_name(const Engine& engine) { return engine.info().name.empty() ? engine.info().path : engine.info().name; }

/// One text from beginning to end, once for each column.
void run_stream(const Options& o, const std::string& text) {
  StreamOptions options;
  for (const std::string& column : o.stream) options.columns.push_back(parse_stream_column(column));
  const auto engine = o.model.load();
  options.session = o.model.session(0);
  options.n_tokens = size_t(o.n_tokens);
  options.stride = size_t(o.stride);
  options.n_scored = std::min(options.n_scored, options.stride);
  options.cancelled = &interrupt_flag();
  if (!o.model.quiet && ::isatty(STDERR_FILENO)) {
    options.on_progress = [](const std::string& column, size_t done, size_t total) {
      fmt::print(stderr, "\r{}: {} of {} tokens\033[K{}", column, done, total, done == total ? "\r\033[K" : "");
      std::fflush(stderr);
    };
  }
  const StreamReport report = measure_stream(engine, engine->tokenize(text, true, false), options);
  nlohmann::ordered_json json = {{"model", engine->info().name}, {"act", o.model.act}, {"k_type", options.session.k_type}, {"v_type", options.session.v_type}};
  json.update(stream_json(report));
  if (o.json) fmt::print("{}\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  else fmt::print("{}", stream_table(report));
  if (!o.html.empty()) write_page(o.html, stream_html(report, model_name(*engine), fmt::format("{} predictions of one text, each token given as it stands there; K {}, V {}", with_commas(report.n_tokens), options.session.k_type, options.session.v_type)));
}

void run(const Options& o) {
  if (!o.html.empty()) check_page(o.html);
  const std::string text = read_text(o.file);
  if (!o.stream.empty()) return run_stream(o, text);
  const auto engine = o.model.load();
  PerplexityOptions options;
  options.session = o.model.session(512);
  if (!o.model.kv_window) check_context(o.model, options.session, *engine);  // chunks have an end, whatever the cache keeps of them
  options.n_chunks = size_t(o.n_chunks);
  options.compare = !o.compare.empty();
  if (options.compare) options.caches = parse_pairs(o);
  else options.caches = {{options.session.k_type, options.session.v_type}};
  options.cancelled = &interrupt_flag();
  if (!o.model.quiet) options.on_progress = show_progress;
  const PerplexityReport report = measure_perplexity(engine, engine->tokenize(text, true, false), options);
  if (o.json) fmt::print("{}\n", to_json(report, *engine, o).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  else print_table(report, options.compare);
  if (!o.html.empty()) write_page(o.html, perplexity_html(report, model_name(*engine), fmt::format("{} tokens scored, {} chunks of {}, activations {}", report.n_scored, report.n_chunks, report.n_ctx, o.model.act)));
  if (!o.model.quiet) warn_of_bad_types(report);
}

}  // namespace

void add_perplexity(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("perplexity", "Perplexity of a text, and what KV cache types cost in quality");
  add_model_options(*command, o->model);
  add_cache_options(*command, o->model);
  command->add_option("-f,--file", o->file, "The text, UTF-8")->required();
  command->add_option("--chunks", o->n_chunks, "Chunks of -c tokens (default 512) to read; by default all")->check(CLI::Range(int64_t(1), int64_t(1) << 40));
  auto* compare = command->add_option("--compare-kv", o->compare, "Caches to compare with an f32 one: TYPE or K:V, with commas between")->delimiter(',');
  for (const char* one : {"--kv-type", "--k-type", "--v-type"}) command->get_option(one)->excludes(compare);
  command->add_flag("--apart", o->apart, "Of each TYPE of --compare-kv, also the keys alone and the values alone")->needs(compare);
  auto* stream = command->add_option("--stream", o->stream, "Read the text once from beginning to end and score every prediction, once for each of these: full, window:N[:S], heavy:N, recompute:N; the first is what the others are compared with")->delimiter(',')->excludes(compare);
  command->add_option("--tokens", o->n_tokens, "Predictions of --stream (default: the whole text)")->needs(stream)->check(CLI::Range(int64_t(1), int64_t(1) << 40));
  command->add_option("--stride", o->stride, "recompute:N computes its window anew every so many tokens and scores the last 16 of each (default 100)")->needs(stream)->check(CLI::Range(int64_t(1), int64_t(1) << 30));
  for (const char* one : {"--ctx", "--chunks", "--kv-window", "--kv-evict"}) command->get_option(one)->excludes(stream);
  command->add_option("--html", o->html, "Write the comparison as a page with a plot: size against quality, or the curves of --stream");
  command->add_flag("--json", o->json, "One JSON object on stdout in place of the table");
  command->callback([o] {
    if (!o->html.empty() && o->compare.empty() && o->stream.empty()) throw Error(ErrorKind::kUsage, "--html draws a comparison; give --compare-kv or --stream too");
    run(*o);
  });
}

}  // namespace quern::cli
