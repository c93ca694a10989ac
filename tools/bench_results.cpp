// Derived figures, the table, and the JSON lines.
#include "bench_results.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "report_text.h"

namespace quern::cli {
namespace {

nlohmann::ordered_json stages_json(const char* what, const StageFigures& figures) {
  nlohmann::ordered_json stages;
  for (const StageFigure& stage : figures.stages) stages[stage.name] = stage.ms;
  return {{"bench", "stages"}, {"what", what}, {"n_tokens", figures.n_tokens}, {"total_ms", figures.total_ms}, {"ms", stages}};
}

void print_stages(const BenchResults& r, std::FILE* out) {
  const ProfileFigures& p = *r.profile;
  fmt::print(out, "\nWhere the time goes ({}, {}; worker 0)\n", counted(size_t(r.threads), "thread"), r.kv_type);
  fmt::print(out, "  {:<28}{:>18}{:>26}\n", "stage", fmt::format("prefill {}", p.prefill.n_tokens), fmt::format("decode {} at depth {}", p.decode.n_tokens, r.profile_depth));
  for (const StageFigure& stage : p.decode.stages) {
    const auto same = std::find_if(p.prefill.stages.begin(), p.prefill.stages.end(), [&](const StageFigure& s) { return s.name == stage.name; });
    const std::string prefill = same == p.prefill.stages.end() ? "" : fmt::format("{:.1f} %", 100 * same->ms / p.prefill.total_ms);
    fmt::print(out, "  {:<28}{:>18}{:>26}\n", stage.name, prefill, fmt::format("{:.3f} ms {:5.1f} %", stage.ms / double(p.decode.n_tokens), 100 * stage.ms / p.decode.total_ms));
  }
}

void print_widths(const BenchResults& r, std::FILE* out) {
  fmt::print(out, "\nOne step of n tokens at depth {} ({}, {})\n", r.widths->depth, counted(size_t(r.threads), "thread"), r.kv_type);
  fmt::print(out, "  {:>4}{:>12}{:>16}\n", "n", "ms", "ms a token");
  for (size_t i = 0; i < r.widths->ms.size(); ++i) fmt::print(out, "  {:>4}{:>12.2f}{:>16.2f}\n", r.widths->n_tokens[i], r.widths->ms[i], r.widths->ms[i] / double(r.widths->n_tokens[i]));
}

void print_no_cache(const BenchResults& r, std::FILE* out) {
  const NoCacheFigures& n = *r.no_cache;
  fmt::print(out, "\nWith the cache and without it ({}, {}; after a prompt of {} tokens)\n", counted(size_t(r.threads), "thread"), r.kv_type, n.n_prompt);
  fmt::print(out, "  {:>8}{:>14}{:>18}{:>10}\n", "tokens", "cached, ms", "recomputed, ms", "times");
  for (size_t count = 1; count <= n.cached_ms.size(); count = std::max(count + 1, std::min(2 * count, n.cached_ms.size()))) {
    fmt::print(out, "  {:>8}{:>14.1f}{:>18.1f}{:>10.1f}\n", count, n.cached_ms[count - 1], n.recomputed_ms[count - 1], n.recomputed_ms[count - 1] / n.cached_ms[count - 1]);
  }
  fmt::print(out, "  the tokens are {}\n", n.same_tokens ? "the same" : "NOT THE SAME");
}

std::string check_text(const BenchPoint& p) {
  if (p.check() == BenchCheck::kOk) return "ok";
  if (p.check() == BenchCheck::kNotChecked) return "not checked";
  if (!p.is_repeatable) return "FAILED: repeats differ";
  return fmt::format("FAILED: {} where {} was expected", fmt::join(p.tokens, " "), fmt::join(p.expected, " "));
}

nlohmann::ordered_json point_json(const BenchResults& r, const BenchPoint& p) {
  nlohmann::ordered_json json = {{"bench", p.n_decode ? "depth" : "prompt"}, {"engine", "quern " QUERN_VERSION}, {"model", file_name(r.model.path)},
                                 {"isa", r.isa}, {"threads", p.threads}, {"kv", p.kv_type}, {"repeats", p.prefill_tps.size()}};
  if (p.n_decode) json["depth"] = p.n_prompt;
  json["pp_tokens"] = p.n_prompt;
  json["pp_tps"] = median(p.prefill_tps);
  json["pp_tps_all"] = p.prefill_tps;
  json["int8_gop_per_s"] = r.prefill_gop_per_s(p);
  json["peak_share"] = r.peak_share(p);
  if (p.n_decode) {
    json["tg_tokens"] = p.n_decode;
    json["tg_tps"] = median(p.decode_tps);
    json["tg_tps_all"] = p.decode_tps;
    json["weight_bytes"] = r.work.weight_bytes;
    json["kv_bytes"] = p.kv_bytes;
    json["gb_per_s"] = r.decode_gb_per_s(p);
    json["bus_share"] = r.bus_share(p);
  }
  json["check"] = p.check() == BenchCheck::kFailed ? "failed" : p.check() == BenchCheck::kOk ? "ok" : "none";
  json["tokens"] = p.tokens;
  return json;
}

}  // namespace

std::string file_name(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

BenchCheck BenchPoint::check() const {
  if (!is_repeatable) return BenchCheck::kFailed;
  if (expected.empty()) return BenchCheck::kNotChecked;
  return tokens == expected ? BenchCheck::kOk : BenchCheck::kFailed;
}

const MachineFigures& BenchResults::machine_of(int n_threads) const {
  return *std::find_if(machine.begin(), machine.end(), [&](const MachineFigures& m) { return m.threads == n_threads; });
}
double BenchResults::decode_gb_per_s(const BenchPoint& p) const { return double(work.weight_bytes + p.kv_bytes) * median(p.decode_tps) * 1e-9; }
double BenchResults::bus_share(const BenchPoint& p) const { return decode_gb_per_s(p) / machine_of(p.threads).read_gb_per_s; }
double BenchResults::prefill_gop_per_s(const BenchPoint& p) const {
  return 2e-9 * (double(work.layer_macs) + double(work.output_macs) / double(p.n_prompt)) * median(p.prefill_tps);
}
double BenchResults::peak_share(const BenchPoint& p) const { return prefill_gop_per_s(p) / machine_of(p.threads).int8_gop_per_s; }
bool BenchResults::any_failed() const {
  return std::any_of(points.begin(), points.end(), [](const BenchPoint& p) { return p.check() == BenchCheck::kFailed; }) || (no_cache && !no_cache->same_tokens);
}

void print_bench_table(const BenchResults& r, std::FILE* out) {
  fmt::print(out, "{} ({}, {}), {}; a decoded token reads {} of weights\n", file_name(r.model.path), r.model.architecture, bytes_text(r.model.file_bytes), r.isa, bytes_text(r.work.weight_bytes));
  for (const MachineFigures& m : r.machine) {
    fmt::print(out, "the machine, {}: reads {:.1f} GB/s (from {}), {:.0f} int8 Gop/s\n", counted(size_t(m.threads), "thread"), m.read_gb_per_s, bytes_text(m.buffer_bytes), m.int8_gop_per_s);
  }
  fmt::print(out, "\n{:>7} {:>5} {:>7} {:>13} {:>8} {:>8} {:>12} {:>10} {:>7} {:>7}  {}\n", "threads", "KV", "tokens", "prefill tok/s", "Gop/s", "of peak", "decode tok/s", "MB a token", "GB/s", "of bus", "check");
  for (const BenchPoint& p : r.points) {
    fmt::print(out, "{:>7} {:>5} {:>7} {:>13.1f} {:>8.0f} {:>6.0f} %", p.threads, p.kv_type, p.n_prompt, median(p.prefill_tps), r.prefill_gop_per_s(p), 100 * r.peak_share(p));
    if (p.n_decode) fmt::print(out, " {:>12.1f} {:>10.1f} {:>7.1f} {:>5.0f} %", median(p.decode_tps), double(r.work.weight_bytes + p.kv_bytes) * 1e-6, r.decode_gb_per_s(p), 100 * r.bus_share(p));
    else fmt::print(out, " {:>12} {:>10} {:>7} {:>7}", "", "", "", "");
    fmt::print(out, "  {}\n", check_text(p));
  }
  if (r.widths) print_widths(r, out);
  if (r.no_cache) print_no_cache(r, out);
  if (r.profile) print_stages(r, out);
}

void print_bench_json(const BenchResults& r, std::FILE* out) {
  const auto line = [&](const nlohmann::ordered_json& json) { fmt::print(out, "{}\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)); };
  for (const MachineFigures& m : r.machine) {
    line({{"bench", "machine"}, {"isa", r.isa}, {"threads", m.threads}, {"buffer_bytes", m.buffer_bytes}, {"read_gb_per_s", m.read_gb_per_s}, {"int8_gop_per_s", m.int8_gop_per_s}});
  }
  for (const BenchPoint& p : r.points) line(point_json(r, p));
  const nlohmann::ordered_json where = {{"threads", r.threads}, {"kv", r.kv_type}};
  const auto with_where = [&](nlohmann::ordered_json json) {
    json.update(where);
    line(json);
  };
  if (r.widths) with_where({{"bench", "widths"}, {"depth", r.widths->depth}, {"n_tokens", r.widths->n_tokens}, {"ms", r.widths->ms}});
  if (r.no_cache) {
    with_where({{"bench", "no_cache"}, {"n_prompt", r.no_cache->n_prompt}, {"cached_ms", r.no_cache->cached_ms}, {"recomputed_ms", r.no_cache->recomputed_ms}, {"check", r.no_cache->same_tokens ? "ok" : "failed"}});
  }
  if (r.profile) {
    with_where(stages_json("prefill", r.profile->prefill));
    nlohmann::ordered_json decode = stages_json("decode", r.profile->decode);
    decode["depth"] = r.profile_depth;
    with_where(decode);
  }
}

}  // namespace quern::cli
