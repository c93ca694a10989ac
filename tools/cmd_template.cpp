// Placeholder.
#include "command.h"

namespace quern::cli {

void add_template(CLI::App&) {}

}  // namespace quern::cli
