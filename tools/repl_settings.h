// The settings that /set changes between two messages.
#pragma once
#include <string>
#include <vector>

#include "repl.h"

namespace quern::cli {

std::vector<std::string> setting_names();
/// One line a setting, with its value and what it does.
std::string settings_text(const ReplOptions& options);
/// Returns what was set, for the user to see. @throws Error(kUsage) naming the settings or the values allowed.
std::string change_setting(ReplOptions& options, const std::string& name, const std::string& value);

}  // namespace quern::cli
