// A conversation in a file: JSON to go on with later, Markdown to read.
#pragma once
#include <string>

#include "quern/chat.h"

namespace quern::cli {

/// Writes the whole conversation, what has left the context included; the ending .json or .md says how. An existing file is
/// replaced only when the new one is complete. @throws Error(kUsage) on another ending, Error(kRuntime) when it cannot be written.
void save_transcript(const Conversation& conversation, const ModelInfo& model, const std::string& path);
/// Replaces turns and system prompt by those of a JSON file. @throws Error(kUsage) naming the file and what is wrong with it.
void load_transcript(Conversation& conversation, const std::string& path);

}  // namespace quern::cli
