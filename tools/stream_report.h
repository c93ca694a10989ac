// What `quern perplexity --stream` has measured: as a table, as JSON, and as a page with the curves.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "quern/perplexity.h"

namespace quern::cli {

/// full, window:N[:S], heavy:N or recompute:N. @throws Error(kUsage)
StreamColumn parse_stream_column(const std::string& text);
std::string stream_table(const StreamReport& report);
nlohmann::ordered_json stream_json(const StreamReport& report);
std::string stream_html(const StreamReport& report, const std::string& model, const std::string& about);

}  // namespace quern::cli
