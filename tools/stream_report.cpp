// Every cell compares over the predictions that the first column scored too, so that a stride of it is no source of difference.
#include "stream_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "bench_svg.h"
#include "model_options.h"
#include "report_text.h"

namespace quern::cli {
namespace {

constexpr uint32_t kMostTokens = 1u << 30;

double change(const StreamBucket& b) { return b.reference > 0 ? b.compared / b.reference - 1 : 0; }

std::string cell(const StreamBucket& b, bool is_first) {
  if (b.n_compared == 0) return "-";
  return is_first ? fmt::format("{:.4f}", b.compared) : fmt::format("{:.4f} ({:+.1f} %)", b.compared, 100 * change(b));
}

std::string rows_name(const StreamReport& r, size_t bucket) {
  return fmt::format("{}-{}", with_commas(bucket * r.bucket), with_commas(std::min((bucket + 1) * r.bucket, r.n_tokens)));
}

nlohmann::ordered_json bucket_json(const StreamBucket& b) {
  return {{"nll", b.nll}, {"predictions", b.n}, {"compared_nll", b.compared}, {"reference_nll", b.reference}, {"compared_predictions", b.n_compared}, {"change", change(b)}};
}

}  // namespace

StreamColumn parse_stream_column(const std::string& text) {
  std::vector<uint32_t> numbers;
  const size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  const auto refuse = [&] { throw Error(ErrorKind::kUsage, fmt::format("--stream: '{}' is none of full, window:N, window:N:S (S sinks), heavy:N (512 or a larger multiple of 256), recompute:N", text)); };
  for (size_t at = colon; at != std::string::npos;) {
    const size_t next = text.find(':', at + 1);
    const std::string part = text.substr(at + 1, next == std::string::npos ? next : next - at - 1);
    uint32_t number = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
    if (part.empty() || error != std::errc() || end != part.data() + part.size() || number > kMostTokens) refuse();
    numbers.push_back(number);
    at = next;
  }
  StreamColumn column;
  column.name = text;
  const size_t n = numbers.size();
  if (kind == "full" && n == 0) return column;
  if (n == 0 || numbers[0] == 0) refuse();
  if (kind == "window" && n <= 2) {
    column.window = numbers[0];
    column.sinks = n == 2 ? numbers[1] : kDefaultSinks;
  } else if (kind == "heavy" && n == 1 && is_heavy_budget(numbers[0])) {
    column.heavy = numbers[0];
  } else if (kind == "recompute" && n == 1) {
    column.kind = StreamColumn::Kind::kRecompute;
    column.recompute = numbers[0];
  } else {
    refuse();
  }
  return column;
}

std::string stream_table(const StreamReport& r) {
  std::string out = fmt::format("{} predictions of one text; mean negative log-likelihood in nats over the predictions that '{}' scored\n", with_commas(r.n_tokens), r.columns[0].column.name);
  size_t width = 17;
  for (const StreamFigures& f : r.columns) width = std::max(width, f.column.name.size());
  const auto line = [&](const std::string& name, auto&& value) {
    out += fmt::format("{:<16}", name);
    for (size_t i = 0; i < r.columns.size(); ++i) out += fmt::format("  {:>{}}", value(i), width);
    out += '\n';
  };
  line("tokens", [&](size_t i) { return r.columns[i].column.name; });
  for (size_t b = 0; b < r.columns[0].buckets.size(); ++b) line(rows_name(r, b), [&](size_t i) { return cell(r.columns[i].buckets[b], i == 0); });
  line("all", [&](size_t i) { return cell(r.columns[i].all, i == 0); });
  line("cache", [&](size_t i) { return bytes_text(r.columns[i].committed_bytes); });
  return out;
}

nlohmann::ordered_json stream_json(const StreamReport& r) {
  nlohmann::ordered_json columns = nlohmann::ordered_json::array();
  for (const StreamFigures& f : r.columns) {
    nlohmann::ordered_json buckets = nlohmann::ordered_json::array();
    for (const StreamBucket& b : f.buckets) buckets.push_back(bucket_json(b));
    columns.push_back({{"name", f.column.name}, {"committed_bytes", f.committed_bytes}, {"all", bucket_json(f.all)}, {"buckets", buckets}});
  }
  return {{"predictions", r.n_tokens}, {"bucket", r.bucket}, {"columns", columns}};
}

std::string stream_html(const StreamReport& r, const std::string& model, const std::string& about) {
  LinePlot plot;
  plot.x_title = "tokens read";
  plot.y_title = "mean negative log-likelihood (nats)";
  std::string table = "<tr><th>tokens</th>";
  for (size_t i = 0; i < r.columns.size(); ++i) {
    PlotSeries series{r.columns[i].column.name, {}, int(i % 6), i == 0};
    for (size_t b = 0; b < r.columns[i].buckets.size(); ++b) {
      if (r.columns[i].buckets[b].n_compared) series.points.emplace_back(double(std::min((b + 1) * r.bucket, r.n_tokens)), r.columns[i].buckets[b].compared);
    }
    plot.series.push_back(std::move(series));
    table += fmt::format("<th>{}</th>", escape_html(r.columns[i].column.name));
  }
  table += "</tr>\n";
  const auto row = [&](const std::string& name, auto&& value) {
    table += fmt::format("<tr><th>{}</th>", name);
    for (size_t i = 0; i < r.columns.size(); ++i) table += fmt::format("<td>{}</td>", value(i));
    table += "</tr>\n";
  };
  for (size_t b = 0; b < r.columns[0].buckets.size(); ++b) row(rows_name(r, b), [&](size_t i) { return cell(r.columns[i].buckets[b], i == 0); });
  row("all", [&](size_t i) { return cell(r.columns[i].all, i == 0); });
  row("cache", [&](size_t i) { return bytes_text(r.columns[i].committed_bytes); });
  return fmt::format("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}: what forgetting costs</title><style>{1}</style></head>\n<body><main><h1>{0}: what forgetting costs</h1>\n<p>{2}</p>\n<figure class=\"wide\">{3}</figure>\n<div class=\"table\"><table>{4}</table></div></main></body></html>\n",
                     escape_html(model), page_style(), escape_html(about), svg_lines(plot), table);
}

}  // namespace quern::cli
