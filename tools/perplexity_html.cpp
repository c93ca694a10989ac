// Both axes are logarithmic: bytes per token to the right, mean KL divergence upwards, so that good caches lie low and small
// ones left.
#include "perplexity_html.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report_text.h"

namespace quern::cli {
namespace {

constexpr double kWidth = 860, kHeight = 460, kLeft = 80, kRight = 40, kTop = 20, kBottom = 60;

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') out += "&lt;";
    else if (c == '>') out += "&gt;";
    else if (c == '&') out += "&amp;";
    else if (c == '"') out += "&quot;";
    else out += c;
  }
  return out;
}

std::string name(const KvTypePair& types) { return escaped(types.k == types.v ? types.k : types.k + ":" + types.v); }

struct Axis {
  double low, high, begin, end;
  double at(double value) const { return begin + (std::log10(value) - low) / (high - low) * (end - begin); }
};

/// The caches with something to show: the reference itself has no divergence.
std::vector<const CacheQuality*> shown(const PerplexityReport& report) {
  std::vector<const CacheQuality*> points;
  for (const CacheQuality& c : report.caches) {
    if (c.kl_mean > 0) points.push_back(&c);
  }
  return points;
}

std::string plot(const PerplexityReport& report) {
  const auto points = shown(report);
  if (points.empty()) return "<p>No cache differs from the f32 one.</p>";
  Axis x{1e9, -1e9, kLeft, kWidth - kRight}, y{1e9, -1e9, kHeight - kBottom, kTop};
  for (const CacheQuality* c : points) {
    x.low = std::min(x.low, std::log10(double(c->bytes_per_token)) - 0.1);
    x.high = std::max(x.high, std::log10(double(c->bytes_per_token)) + 0.15);
    y.low = std::min(y.low, std::floor(std::log10(c->kl_mean)));
    y.high = std::max(y.high, std::floor(std::log10(c->kl_mean)) + 1);
  }
  std::string out = fmt::format("<svg viewBox=\"0 0 {0} {1}\" role=\"img\" aria-label=\"Size against quality\">\n", kWidth, kHeight);
  for (double exponent = y.low; exponent <= y.high; ++exponent) {
    const double at = y.at(std::pow(10, exponent));
    out += fmt::format("<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/><text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">1e{}</text>\n", kLeft, kWidth - kRight, at, at, kLeft - 8, at + 4, int(exponent));
  }
  std::vector<uint64_t> sizes;
  for (const CacheQuality* c : points) sizes.push_back(c->bytes_per_token);
  std::sort(sizes.begin(), sizes.end());
  double last = -1e9;
  for (const uint64_t size : sizes) {
    const double at = x.at(double(size));
    if (at - last < 60) continue;  // labels must not overlap
    out += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", at, kHeight - kBottom + 20, with_commas(size));
    last = at;
  }
  out += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">bytes per token</text>\n", (kLeft + kWidth - kRight) / 2, kHeight - 12);
  out += fmt::format("<text transform=\"translate(16 {}) rotate(-90)\" text-anchor=\"middle\">mean KL divergence (nats)</text>\n", kHeight / 2);
  for (const CacheQuality* c : points) {
    const double px = x.at(double(c->bytes_per_token)), py = y.at(c->kl_mean);
    out += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"5\"><title>{}: {} bytes per token, KL {:.6f}, PPL ratio {:.4f}</title></circle><text class=\"name\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", px, py, name(c->types),
                       with_commas(c->bytes_per_token), c->kl_mean, c->ratio, px + 9, py + 4, name(c->types));
  }
  return out + "</svg>\n";
}

std::string table(const PerplexityReport& report) {
  std::string out = "<table><tr><th>cache</th><th>bytes/token</th><th>bits</th><th>PPL</th><th>PPL ratio</th><th>KL mean</th><th>KL 99 %</th><th>KL max</th><th>top-1</th><th>RMS logit error</th></tr>\n";
  for (const CacheQuality& c : report.caches) {
    out += fmt::format("<tr><th>{}</th><td>{}</td><td>{:.2f}</td><td>{:.4f} &plusmn; {:.2f}</td><td>{:.4f} &plusmn; {:.4f}</td><td>{:.6f}</td><td>{:.5f}</td><td>{:.4f}</td><td>{:.2f} %</td><td>{:.4f}</td></tr>\n", name(c.types),
                       with_commas(c.bytes_per_token), c.bits_per_value, c.perplexity, c.perplexity_error, c.ratio, c.ratio_error, c.kl_mean, c.kl_p99, c.kl_max, 100 * c.top1_agreement, c.rms_logit_error);
  }
  return out + "</table>\n";
}

constexpr const char* kStyle = R"(
body { font: 15px/1.5 system-ui, sans-serif; max-width: 960px; margin: 2em auto; padding: 0 1em; color: #222; background: #fff; }
svg { width: 100%; height: auto; } svg text { font-size: 12px; fill: #555; } svg .name { font-weight: 600; fill: #222; }
.grid { stroke: #ddd; } circle { fill: #2563eb; }
table { border-collapse: collapse; width: 100%; font-size: 13px; } th, td { padding: 4px 8px; text-align: right; border-bottom: 1px solid #ddd; } td { white-space: nowrap; }
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #181818; } svg text { fill: #aaa; } svg .name { fill: #eee; } .grid { stroke: #333; } circle { fill: #60a5fa; } th, td { border-color: #333; } }
)";

}  // namespace

std::string perplexity_html(const PerplexityReport& report, const std::string& title, const std::string& about) {
  return fmt::format("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>KV caches of {0}</title><style>{1}</style></head>\n<body><h1>{0}: what each KV cache costs</h1>\n<p>{2}. Against the f32 cache of the same engine.</p>\n{3}{4}</body></html>\n",
                     escaped(title), kStyle, escaped(about), plot(report), table(report));
}

}  // namespace quern::cli
