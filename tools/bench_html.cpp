// The page: a line of figures, the plots, and the whole table below them. Nothing is fetched and nothing is scripted.
#include <fmt/format.h>

#include <algorithm>

#include "bench_results.h"
#include "bench_svg.h"
#include "report_text.h"

namespace quern::cli {
namespace {

constexpr const char* kStyle = R"css(
:root { --ink: #1c2430; --soft: #5d6878; --line: #e3e7ec; --card: #ffffff; --page: #f4f6f8; --good: #1d7f4e; --bad: #b3261e;
  --c0: #2563c9; --c1: #d9702b; --c2: #17866a; --c3: #8a52c4; --c4: #b83a5e; --c5: #7a7f1f; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8ebf0; --soft: #9aa5b4; --line: #2c3440; --card: #181e27; --page: #10151c; --good: #5fcf95; --bad: #ff8a80;
    --c0: #6ea4ff; --c1: #f39a5f; --c2: #4cc4a1; --c3: #bd93ee; --c4: #ec7f9c; --c5: #c3c963; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
main { max-width: 1200px; margin: 0 auto; padding: 32px 24px 48px; }
h1 { font-size: 26px; line-height: 1.2; margin: 0 0 4px; letter-spacing: -0.01em; overflow-wrap: anywhere; }
h2 { font-size: 16px; margin: 0 0 2px; }
p { margin: 0; color: var(--soft); }
.tiles, .plots { display: grid; gap: 16px; margin-top: 20px; }
.tiles { grid-template-columns: repeat(auto-fit, minmax(190px, 1fr)); }
.plots { grid-template-columns: repeat(auto-fit, minmax(min(480px, 100%), 1fr)); align-items: start; }
.wide { grid-column: 1 / -1; }
.pair { display: grid; gap: 24px; grid-template-columns: repeat(auto-fit, minmax(min(440px, 100%), 1fr)); }
.tile, figure, .table { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 16px 20px; margin: 0; }
.tile b { display: block; font-size: 28px; line-height: 1.25; font-weight: 600; font-variant-numeric: tabular-nums; letter-spacing: -0.02em; }
.tile b small { font-size: 15px; font-weight: 400; color: var(--soft); letter-spacing: 0; }
.tile span, figcaption p { font-size: 13px; color: var(--soft); }
figcaption { margin-bottom: 14px; }
svg { display: block; width: 100%; height: auto; overflow: visible; }
svg text { font: 12px system-ui, "Segoe UI", "DejaVu Sans", sans-serif; fill: var(--soft); font-variant-numeric: tabular-nums; }
svg .title { font-size: 12px; }
svg .label { font-weight: 600; }
svg .faint { font-weight: 400; opacity: 0.8; }
.grid { stroke: var(--line); } .axis { stroke: var(--soft); }
.line { fill: none; stroke-width: 2.2; stroke-linejoin: round; }
.limit { stroke-width: 1.3; stroke-dasharray: 4 4; opacity: 0.75; }
.mark { stroke: var(--card); stroke-width: 1.2; }
.dense { opacity: 0; } .dense:hover { opacity: 1; }
.c0 { stroke: var(--c0); } .c1 { stroke: var(--c1); } .c2 { stroke: var(--c2); } .c3 { stroke: var(--c3); } .c4 { stroke: var(--c4); } .c5 { stroke: var(--c5); }
circle.mark.c0, circle.dense.c0, .f0, svg .t0 { fill: var(--c0); } circle.mark.c1, circle.dense.c1, .f1, svg .t1 { fill: var(--c1); }
circle.mark.c2, circle.dense.c2, svg .t2 { fill: var(--c2); } circle.mark.c3, circle.dense.c3, svg .t3 { fill: var(--c3); }
circle.mark.c4, circle.dense.c4, svg .t4 { fill: var(--c4); } circle.mark.c5, circle.dense.c5, svg .t5 { fill: var(--c5); }
circle.mark { stroke: var(--card); }
.table { margin-top: 16px; overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 13.5px; font-variant-numeric: tabular-nums; }
th { text-align: right; font-weight: 500; color: var(--soft); padding: 6px 10px; border-bottom: 1px solid var(--line); white-space: nowrap; }
td { text-align: right; padding: 6px 10px; border-bottom: 1px solid var(--line); }
tr:last-child td { border-bottom: 0; }
.good { color: var(--good); } .bad { color: var(--bad); font-weight: 600; }
)css";

}  // namespace

const char* page_style() { return kStyle; }

namespace {

std::string series_name(const BenchResults& r, int threads, const std::string& kv) {
  return r.machine.size() > 1 ? fmt::format("{}, {} thr.", kv, threads) : kv;
}

/// One series for each combination of threads and cache type, over the depths.
template <typename F>
std::vector<PlotSeries> over_depth(const BenchResults& r, F&& value) {
  std::vector<PlotSeries> series;
  for (const BenchPoint& p : r.points) {
    if (!p.n_decode) continue;
    const std::string name = series_name(r, p.threads, p.kv_type);
    auto at = std::find_if(series.begin(), series.end(), [&](const PlotSeries& s) { return s.name == name; });
    if (at == series.end()) {
      series.push_back({name, {}, int(series.size() % 6), false});
      at = series.end() - 1;
    }
    at->points.emplace_back(double(p.n_prompt), value(p));
  }
  for (PlotSeries& s : series) std::sort(s.points.begin(), s.points.end());
  return series;
}

std::string figure(const std::string& title, const std::string& about, const std::string& svg) {
  return fmt::format("<figure><figcaption><h2>{}</h2><p>{}</p></figcaption>{}</figure>\n", escape_html(title), escape_html(about), svg);
}

std::string decode_figure(const BenchResults& r) {
  LinePlot plot{"tokens in the cache when decoding starts", "tokens/s", true, over_depth(r, [](const BenchPoint& p) { return median(p.decode_tps); })};
  std::vector<PlotSeries> limits = over_depth(r, [&](const BenchPoint& p) { return r.machine_of(p.threads).read_gb_per_s * 1e9 / double(r.work.weight_bytes + p.kv_bytes); });
  for (PlotSeries& s : limits) {
    s.is_limit = true;
    s.name = "bus, " + s.name;
    plot.series.push_back(std::move(s));
  }
  return figure("Decode over depth", "Solid: measured. Dashed: weights and cache read once for each token, at the speed at which the same threads read memory.", svg_lines(plot));
}

std::string prefill_figure(const BenchResults& r) {
  return figure("Prefill over depth", "Reading so many tokens into an empty cache.",
                svg_lines({"tokens of the prompt", "tokens/s", true, over_depth(r, [](const BenchPoint& p) { return median(p.prefill_tps); })}));
}

std::string widths_figure(const BenchResults& r) {
  PlotSeries step{"measured", {}, 0, false}, alone{"one by one", {}, 1, true};
  for (size_t i = 0; i < r.widths->ms.size(); ++i) {
    const double n = double(r.widths->n_tokens[i]);
    step.points.emplace_back(n, r.widths->ms[i]);
    if (n * r.widths->ms[0] <= 1.3 * r.widths->ms.back()) alone.points.emplace_back(n, n * r.widths->ms[0]);
  }
  return figure("Cost of one step of n tokens", fmt::format("At depth {}, {}, {} cache: what a batch or a speculative draft of n tokens costs. Dashed: the same tokens one at a time.", r.widths->depth, counted(size_t(r.threads), "thread"), r.kv_type),
                svg_lines({"n, tokens in one step", "milliseconds", false, {step, alone}}));
}

std::string no_cache_figure(const BenchResults& r) {
  PlotSeries cached{"cached", {}, 0, false}, recomputed{"recomputed", {}, 1, false};
  for (size_t i = 0; i < r.no_cache->cached_ms.size(); ++i) {
    cached.points.emplace_back(double(i + 1), r.no_cache->cached_ms[i] / 1000);
    recomputed.points.emplace_back(double(i + 1), r.no_cache->recomputed_ms[i] / 1000);
  }
  return figure("What the cache saves", fmt::format("Time until the n-th token after a prompt of {}: O(n) with the cache, O(n\u00b2) when everything before is computed again. The tokens are {}.", r.no_cache->n_prompt, r.no_cache->same_tokens ? "the same" : "NOT the same"),
                svg_lines({"tokens generated", "seconds", false, {cached, recomputed}}));
}

std::string stage_bars(const StageFigures& figures, const std::string& title, int color) {
  std::vector<Bar> bars;
  for (const StageFigure& stage : figures.stages) bars.push_back({stage.name, stage.ms / figures.total_ms});
  return svg_bars(bars, title, color);
}

std::string stages_figure(const BenchResults& r) {
  const StageFigures &prefill = r.profile->prefill, &decode = r.profile->decode;
  return fmt::format("<figure class=\"wide\"><figcaption><h2>Where the time goes</h2><p>{}, {} cache; as worker 0 sees it, its waiting apart.</p></figcaption><div class=\"pair\">{}{}</div></figure>\n", counted(size_t(r.threads), "thread"),
                     r.kv_type, stage_bars(decode, fmt::format("a token at depth {}: {:.2f} ms", r.profile_depth, decode.total_ms / double(decode.n_tokens)), 0),
                     stage_bars(prefill, fmt::format("a prompt of {} tokens: {:.0f} ms", prefill.n_tokens, prefill.total_ms), 1));
}

std::string tile(const std::string& value, const std::string& unit, const std::string& about) {
  return fmt::format("<div class=\"tile\"><b>{} <small>{}</small></b><span>{}</span></div>\n", escape_html(value), escape_html(unit), escape_html(about));
}

std::string tiles(const BenchResults& r) {
  const BenchPoint *prefill = nullptr, *decode = nullptr;
  for (const BenchPoint& p : r.points) {
    if (!prefill || median(p.prefill_tps) > median(prefill->prefill_tps)) prefill = &p;
    if (p.n_decode && (!decode || median(p.decode_tps) > median(decode->decode_tps))) decode = &p;
  }
  std::string out;
  if (decode) out += tile(fmt::format("{:.0f}", median(decode->decode_tps)), "tokens/s decode", fmt::format("depth {}, {}, {}", decode->n_prompt, decode->kv_type, counted(size_t(decode->threads), "thread")));
  if (decode) out += tile(fmt::format("{:.0f} %", 100 * r.bus_share(*decode)), "of the bus", fmt::format("{:.1f} of {:.1f} GB/s", r.decode_gb_per_s(*decode), r.machine_of(decode->threads).read_gb_per_s));
  if (prefill) out += tile(fmt::format("{:.0f}", median(prefill->prefill_tps)), "tokens/s prefill", fmt::format("{} tokens, {}, {}", prefill->n_prompt, prefill->kv_type, counted(size_t(prefill->threads), "thread")));
  if (prefill) out += tile(fmt::format("{:.0f} %", 100 * r.peak_share(*prefill)), "of the integer peak", fmt::format("{:.0f} of {:.0f} Gop/s in {}", r.prefill_gop_per_s(*prefill), r.machine_of(prefill->threads).int8_gop_per_s, r.isa));
  return out;
}

std::string table(const BenchResults& r) {
  std::string out = "<div class=\"table\"><table><thead><tr><th>threads</th><th>KV</th><th>tokens</th><th>prefill, tokens/s</th><th>of peak</th><th>decode, tokens/s</th><th>MB a token</th><th>GB/s</th><th>of bus</th>"
                    "<th>12 tokens as a plain run</th></tr></thead><tbody>\n";
  for (const BenchPoint& p : r.points) {
    out += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{:.1f}</td><td>{:.0f} %</td>", p.threads, escape_html(p.kv_type), with_commas(p.n_prompt), median(p.prefill_tps), 100 * r.peak_share(p));
    if (p.n_decode) out += fmt::format("<td>{:.1f}</td><td>{:.1f}</td><td>{:.1f}</td><td>{:.0f} %</td>", median(p.decode_tps), double(r.work.weight_bytes + p.kv_bytes) * 1e-6, r.decode_gb_per_s(p), 100 * r.bus_share(p));
    else out += "<td></td><td></td><td></td><td></td>";
    if (p.check() == BenchCheck::kNotChecked) out += "<td>not checked</td></tr>\n";
    else out += p.check() == BenchCheck::kOk ? "<td class=\"good\">yes</td></tr>\n" : "<td class=\"bad\">NO</td></tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

}  // namespace

std::string bench_html(const BenchResults& r) {
  const std::string name = escape_html(file_name(r.model.path));
  std::string machine;
  for (const MachineFigures& m : r.machine) machine += fmt::format("; {} read{} {:.1f} GB/s", counted(size_t(m.threads), "thread"), m.threads == 1 ? "s" : "", m.read_gb_per_s);
  std::string page = fmt::format("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
                                 "<link rel=\"icon\" href=\"data:,\"><title>quern bench: {}</title><style>{}</style></head><body><main>\n", name, kStyle);
  page += fmt::format("<h1>{}</h1>\n<p>{}, {}; {}{}. quern {}, medians of {}.</p>\n", name, escape_html(r.model.architecture), bytes_text(r.model.file_bytes), r.isa, machine, QUERN_VERSION,
                      r.points.empty() ? 0 : r.points[0].prefill_tps.size());
  page += "<section class=\"tiles\">\n" + tiles(r) + "</section>\n<section class=\"plots\">\n";
  if (std::any_of(r.points.begin(), r.points.end(), [](const BenchPoint& p) { return p.n_decode > 0; })) page += decode_figure(r) + prefill_figure(r);
  if (r.no_cache) page += no_cache_figure(r);
  if (r.widths) page += widths_figure(r);
  if (r.profile) page += stages_figure(r);
  return page + "</section>\n" + table(r) + "</main></body></html>\n";
}

}  // namespace quern::cli
