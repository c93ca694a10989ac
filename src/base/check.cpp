// The end of the road for a broken invariant.
#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace quern {

void check_failed(const char* expression, const char* file, int line, const std::string& detail) {
  fmt::print(stderr, "quern: internal check failed: {} at {}:{}{}{}\n", expression, file, line, detail.empty() ? "" : ": ", detail);
  std::abort();
}

}  // namespace quern
