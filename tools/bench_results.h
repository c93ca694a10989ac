// What `quern bench` has measured, and its three ways of being told: a table, JSON lines, a page with plots.
#pragma once
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "quern/bench.h"

namespace quern::cli {

enum class BenchCheck { kOk, kNotChecked, kFailed };

/// One combination of threads, cache type and depth.
struct BenchPoint {
  int threads = 0;
  std::string kv_type;
  size_t n_prompt = 0, n_decode = 0;       ///< n_decode 0: only the prompt
  std::vector<double> prefill_tps, decode_tps;  ///< one a repeat
  uint64_t kv_bytes = 0;
  std::vector<TokenId> tokens;             ///< the first greedy ones
  std::vector<TokenId> expected;           ///< what the check saw in their place; empty where bench was stopped before it
  bool is_repeatable = true;               ///< every repeat gave the same tokens
  BenchCheck check() const;
};

struct BenchWidths {
  size_t depth = 0;
  std::vector<size_t> n_tokens;
  std::vector<double> ms;
};

struct BenchResults {
  ModelInfo model;
  std::string isa;
  ModelWork work;
  std::vector<MachineFigures> machine;     ///< one a thread count
  std::vector<BenchPoint> points;
  std::string kv_type;                     ///< of the three below: the first one given, and the most threads
  int threads = 0;
  std::optional<BenchWidths> widths;
  std::optional<NoCacheFigures> no_cache;
  std::optional<ProfileFigures> profile;
  size_t profile_depth = 0;

  const MachineFigures& machine_of(int n_threads) const;
  double decode_gb_per_s(const BenchPoint& point) const;
  double bus_share(const BenchPoint& point) const;
  double prefill_gop_per_s(const BenchPoint& point) const;
  double peak_share(const BenchPoint& point) const;
  bool any_failed() const;
};

std::string file_name(const std::string& path);
/// For people, on a terminal or in a file.
void print_bench_table(const BenchResults& results, std::FILE* out);
/// One object a line; "bench" says of what kind.
void print_bench_json(const BenchResults& results, std::FILE* out);
/// A page that needs nothing beside itself.
std::string bench_html(const BenchResults& results);

}  // namespace quern::cli
