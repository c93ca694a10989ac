// Plots as inline SVG: lines over a linear or logarithmic axis, and bars. No scripts; a mark shows its value when pointed at.
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace quern::cli {

struct PlotSeries {
  std::string name;
  std::vector<std::pair<double, double>> points;
  int color = 0;           ///< 0…5, of the page's palette
  bool is_limit = false;   ///< dashed, without marks: what could be reached
};

struct LinePlot {
  std::string x_title, y_title;
  bool log_x = false;
  std::vector<PlotSeries> series;
};

struct Bar {
  std::string name;
  double share = 0;        ///< 0…1
};

std::string svg_lines(const LinePlot& plot);
std::string svg_bars(const std::vector<Bar>& bars, const std::string& title, int color);
/// The style sheet that plots and tables of a page are drawn with.
const char* page_style();
/// Text for HTML.
std::string escape_html(std::string_view text);

}  // namespace quern::cli
