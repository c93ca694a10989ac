// A table: name, allowed range, what it does, how it is read and written.
#include "repl_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace quern::cli {
namespace {

struct Setting {
  const char* name;
  double least, most;
  bool whole;
  const char* help;
  double (*get)(const ReplOptions&);
  void (*set)(ReplOptions&, double);
};

constexpr double kMany = 1 << 30;

const Setting kSettings[] = {
    {"temp", 0, 100, false, "temperature; 0: always the most likely token", [](const ReplOptions& o) { return double(o.sampling.temperature); }, [](ReplOptions& o, double v) { o.sampling.temperature = float(v); }},
    {"top-k", 0, kMany, true, "keep the K most likely tokens; 0: off", [](const ReplOptions& o) { return double(o.sampling.top_k); }, [](ReplOptions& o, double v) { o.sampling.top_k = int(v); }},
    {"top-p", 0, 1, false, "keep the most likely tokens up to this mass; 1: off", [](const ReplOptions& o) { return double(o.sampling.top_p); }, [](ReplOptions& o, double v) { o.sampling.top_p = float(v); }},
    {"min-p", 0, 1, false, "drop tokens below this share of the best one; 0: off", [](const ReplOptions& o) { return double(o.sampling.min_p); }, [](ReplOptions& o, double v) { o.sampling.min_p = float(v); }},
    {"repeat-penalty", 0.01, 100, false, "weaken tokens seen lately; 1: off", [](const ReplOptions& o) { return double(o.sampling.repeat_penalty); }, [](ReplOptions& o, double v) { o.sampling.repeat_penalty = float(v); }},
    {"repeat-last-n", 0, kMany, true, "how many tokens count as lately", [](const ReplOptions& o) { return double(o.sampling.repeat_last_n); }, [](ReplOptions& o, double v) { o.sampling.repeat_last_n = int(v); }},
    {"seed", 0, 9007199254740992.0, true, "of the sampler; each answer adds 1", [](const ReplOptions& o) { return double(o.sampling.seed); }, [](ReplOptions& o, double v) { o.sampling.seed = uint64_t(v); }},
    {"max", -1, kMany, true, "most tokens of an answer; -1: until its end", [](const ReplOptions& o) { return double(o.n_predict); }, [](ReplOptions& o, double v) { o.n_predict = int(v); }},
};

/// Names as other programs write them: top_p, temperature, num_predict.
std::string usual_name(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  for (const auto& [other, known] : {std::pair("temperature", "temp"), {"num-predict", "max"}, {"n-predict", "max"}, {"predict", "max"}}) {
    if (name == other) return known;
  }
  return name;
}

}  // namespace

std::vector<std::string> setting_names() {
  std::vector<std::string> names;
  for (const Setting& setting : kSettings) names.emplace_back(setting.name);
  return names;
}

std::string settings_text(const ReplOptions& options) {
  std::string out;
  for (const Setting& setting : kSettings) out += fmt::format("  {:<15} {:<12} {}\n", setting.name, setting.whole ? fmt::format("{:.0f}", setting.get(options)) : fmt::format("{:g}", float(setting.get(options))), setting.help);
  return out;
}

std::string change_setting(ReplOptions& options, const std::string& typed_name, const std::string& value) {
  const std::string name = usual_name(typed_name);
  for (const Setting& setting : kSettings) {
    if (name != setting.name) continue;
    char* end = nullptr;
    const double number = std::strtod(value.c_str(), &end);
    const bool is_number = !value.empty() && *end == '\0';
    if (!is_number || !(number >= setting.least && number <= setting.most) || (setting.whole && number != double(int64_t(number)))) {
      throw Error(ErrorKind::kUsage, fmt::format("/set {}: '{}' is not allowed; wanted is {} from {:g} to {:g}", name, value, setting.whole ? "a whole number" : "a number", setting.least, setting.most));
    }
    setting.set(options, number);
    return fmt::format("{} is {} now", name, value);
  }
  throw Error(ErrorKind::kUsage, fmt::format("/set: there is no setting '{}'; there are {}", typed_name, fmt::join(setting_names(), ", ")));
}

}  // namespace quern::cli
