// Files that the user names on the command line: texts to read, pages to write.
#pragma once
#include <cstdio>
#include <string>

namespace quern::cli {

/// All bytes of an open stream; `name` is for the message. @throws Error(kUsage) when reading fails (a directory, say) or does not end
std::string read_all(std::FILE* in, const std::string& name);
/// All bytes of the file given by -f. @throws Error(kUsage)
std::string read_text(const std::string& path);

/// Whether a page can be written there, asked before the work that fills it: leaves what is there, or an empty file. @throws Error(kRuntime)
void check_page(const std::string& path);
/// @throws Error(kRuntime)
void write_page(const std::string& path, const std::string& page);

}  // namespace quern::cli
