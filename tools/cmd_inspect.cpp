// Placeholder.
#include "command.h"

namespace quern::cli {

void add_inspect(CLI::App&) {}

}  // namespace quern::cli
