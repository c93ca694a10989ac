// Coordinates are those of the viewBox; colours and fonts come from classes that the page defines.
#include "bench_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

namespace quern::cli {
namespace {

constexpr double kWidth = 540, kHeight = 300;
constexpr double kLeft = 52, kRight = 92, kTop = 28, kBottom = 44;
constexpr double kPlotWidth = kWidth - kLeft - kRight, kPlotHeight = kHeight - kTop - kBottom;
constexpr double kLabelGap = 13;

/// 1, 2 or 5 times a power of ten, such that at most n steps reach `top`.
double nice_step(double top, double n) {
  const double rough = top / n, power = std::pow(10.0, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (rough <= factor * power) return factor * power;
  }
  return 10 * power;
}

std::string number(double value) {
  if (value >= 10000) return fmt::format("{:.0f}k", value / 1000);
  if (value >= 100 || value == std::floor(value)) return fmt::format("{:.0f}", value);
  return fmt::format("{:.{}f}", value, value >= 10 ? 1 : 2);
}

class Lines {
 public:
  explicit Lines(const LinePlot& plot) : plot_(plot) {
    x_low_ = std::numeric_limits<double>::max();
    double y_top = 0;
    for (const PlotSeries& s : plot.series) {
      for (const auto& [x, y] : s.points) {
        x_low_ = std::min(x_low_, x);
        x_high_ = std::max(x_high_, x);
        y_top = std::max(y_top, y);
      }
    }
    if (!plot.log_x) x_low_ = 0;
    if (!(x_high_ > x_low_)) x_high_ = x_low_ + 1;
    y_step_ = nice_step(std::max(y_top, 1e-6), 5);
    y_high_ = std::ceil(y_top / y_step_ - 1e-9) * y_step_;
  }

  std::string draw() {
    out_ = fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{} over {}\">", kWidth, kHeight, escape_html(plot_.y_title), escape_html(plot_.x_title));
    axes();
    for (const PlotSeries& s : plot_.series) line(s);
    labels();
    return out_ + "</svg>";
  }

 private:
  double x_at(double x) const {
    const double part = plot_.log_x ? std::log(x / x_low_) / std::log(x_high_ / x_low_) : (x - x_low_) / (x_high_ - x_low_);
    return kLeft + part * kPlotWidth;
  }
  double y_at(double y) const { return kTop + (1 - y / y_high_) * kPlotHeight; }

  template <typename... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) { fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...); }

  void axes() {
    add("<text class=\"title\" x=\"0\" y=\"12\">{}</text>", escape_html(plot_.y_title));
    for (double y = 0; y <= y_high_ * 1.0001; y += y_step_) {
      add("<line class=\"{}\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>", y == 0 ? "axis" : "grid", kLeft, kLeft + kPlotWidth, y_at(y), y_at(y));
      add("<text class=\"tick\" text-anchor=\"end\" x=\"{}\" y=\"{:.1f}\">{}</text>", kLeft - 8, y_at(y) + 4, number(y));
    }
    for (const double x : x_ticks()) add("<text class=\"tick\" text-anchor=\"middle\" x=\"{:.1f}\" y=\"{}\">{}</text>", x_at(x), kTop + kPlotHeight + 17, number(x));
    add("<text class=\"tick\" text-anchor=\"middle\" x=\"{}\" y=\"{}\">{}</text>", kLeft + kPlotWidth / 2, kHeight - 8, escape_html(plot_.x_title));
  }

  /// On a logarithmic axis what was measured, on a linear one round numbers.
  std::vector<double> x_ticks() const {
    std::vector<double> ticks;
    if (plot_.log_x) {
      for (const PlotSeries& s : plot_.series) {
        for (const auto& point : s.points) ticks.push_back(point.first);
      }
      std::sort(ticks.begin(), ticks.end());
      ticks.erase(std::unique(ticks.begin(), ticks.end()), ticks.end());
    } else {
      const double step = nice_step(x_high_, 7);
      for (double x = 0; x <= x_high_ * 1.0001; x += step) ticks.push_back(x);
    }
    return ticks;
  }

  void line(const PlotSeries& s) {
    std::string path;
    for (const auto& [x, y] : s.points) path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : " L", x_at(x), y_at(y));
    add("<path class=\"line c{}{}\" d=\"{}\"/>", s.color, s.is_limit ? " limit" : "", path);
    if (s.is_limit) return;
    const bool dense = s.points.size() > 40;
    for (const auto& [x, y] : s.points) {
      add("<circle class=\"{} c{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\"><title>{}: {} at {}</title></circle>", dense ? "dense" : "mark", s.color, x_at(x), y_at(y), dense ? 5.0 : 3.6, escape_html(s.name), number(y), number(x));
    }
  }

  /// Names at the ends of the lines; those at the right border are pushed apart where they would touch.
  void labels() {
    std::vector<std::pair<double, const PlotSeries*>> ends;
    for (const PlotSeries& s : plot_.series) {
      if (s.points.empty()) continue;
      const auto& [x, y] = s.points.back();
      if (x < x_high_) label(s, x_at(x) + 6, y_at(y));
      else ends.emplace_back(y_at(y), &s);
    }
    std::sort(ends.begin(), ends.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (size_t i = 1; i < ends.size(); ++i) ends[i].first = std::max(ends[i].first, ends[i - 1].first + kLabelGap);
    const double over = ends.empty() ? 0 : std::max(0.0, ends.back().first - (kTop + kPlotHeight));
    for (const auto& [y, s] : ends) label(*s, kLeft + kPlotWidth + 8, y - over);
  }

  void label(const PlotSeries& s, double x, double y) {
    add("<text class=\"label t{}{}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>", s.color, s.is_limit ? " faint" : "", x, y + 4, escape_html(s.name));
  }

  const LinePlot& plot_;
  std::string out_;
  double x_low_ = 0, x_high_ = 0, y_high_ = 0, y_step_ = 1;
};

}  // namespace

std::string escape_html(std::string_view text) {
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

std::string svg_lines(const LinePlot& plot) { return Lines(plot).draw(); }

std::string svg_bars(const std::vector<Bar>& bars, const std::string& title, int color) {
  constexpr double kRow = 22, kNames = 178, kValues = 52, kBarWidth = kWidth - kNames - kValues;
  double top = 0.01;
  for (const Bar& bar : bars) top = std::max(top, bar.share);
  std::string out = fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\"><text class=\"label t{}\" x=\"{}\" y=\"12\">{}</text>", kWidth, kRow * double(bars.size()) + 26,
                                escape_html(title), color, kNames, escape_html(title));
  for (size_t i = 0; i < bars.size(); ++i) {
    const double y = 24 + kRow * double(i), width = std::max(1.0, bars[i].share / top * kBarWidth);
    out += fmt::format("<text class=\"tick\" text-anchor=\"end\" x=\"{}\" y=\"{}\">{}</text>", kNames - 10, y + 12, escape_html(bars[i].name));
    out += fmt::format("<rect class=\"f{}\" x=\"{}\" y=\"{}\" width=\"{:.1f}\" height=\"15\" rx=\"2\"/><text x=\"{:.1f}\" y=\"{}\">{:.1f} %</text>", color, kNames, y, width,
                       kNames + width + 6, y + 12, 100 * bars[i].share);
  }
  return out + "</svg>";
}

}  // namespace quern::cli
