// A session on disk: what its cache holds, for which model and settings, and a text of the front end's. Version 1, little-endian:
//   "QUERNSES", u32 version, u32 bytes of the head (a multiple of 4096), u64 bytes of the file,
//   the head's fields (session_file.cpp, struct Head), zeros up to its end,
//   the held pieces, layer by layer, as they lie in memory, rows behind the last token blanked,
//   u64 checksum of everything before.
// Reading is one mapping: checked first, then copied into the cache. Nothing in a file is trusted.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>

#include "engine/engine_impl.h"

namespace quern {

/// @throws Error(kRuntime) where the file cannot be written; Error(kUsage) where `path` is something else than a session file.
SavedSession save_session(const Session::Impl& session, const std::filesystem::path& path, std::string_view extra);

/// @throws Error(kRuntime) for a file that is damaged or cannot be read, Error(kUsage) for one of another model, format or setting;
/// the session is then as before. On lack of memory it is empty.
RestoredSession restore_session(Session::Impl& session, const std::filesystem::path& path);

}  // namespace quern
