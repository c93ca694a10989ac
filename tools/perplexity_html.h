// The comparison of KV caches as one page: a plot of size against quality and the figures below it. Needs no network.
#pragma once
#include <string>

#include "quern/perplexity.h"

namespace quern::cli {

/// `title` and `about` are plain text.
std::string perplexity_html(const PerplexityReport& report, const std::string& title, const std::string& about);

}  // namespace quern::cli
