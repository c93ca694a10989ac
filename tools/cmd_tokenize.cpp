// Placeholder.
#include "command.h"

namespace quern::cli {

void add_tokenize(CLI::App&) {}

}  // namespace quern::cli
