// The KV report for people and for programs.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "quern/engine.h"

namespace quern::cli {

/// with_bar: for a terminal, a bar with the shares of the committed memory too.
std::string kv_report_text(const KvReport& report, const Timings& timings, bool with_bar = false);
nlohmann::ordered_json kv_report_json(const KvReport& report, const Timings& timings);
nlohmann::ordered_json timings_json(const Timings& timings);
/// "1,234 of 8,192", or how many of a sequence without end are seen.
std::string context_text(size_t n_used, const Session& session);
/// "23,040"
/// "1 turn", "2 turns".
std::string counted(size_t n, std::string_view noun);
std::string with_commas(uint64_t n);
/// "45.0 MiB"
std::string bytes_text(uint64_t n);

}  // namespace quern::cli
