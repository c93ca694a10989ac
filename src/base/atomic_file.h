// Replacing a file as a whole: whoever reads it, and whatever happens while it is written, sees the old content or the new one.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace quern {

/// Writes beside the target (NAME.tmp, mode 0600, locked against a second writer) and takes its place in commit(). What a killed
/// writer left there is overwritten by the next one.
class AtomicFile {
 public:
  /// A symbolic link stays one: its target is replaced. @throws Error(kRuntime) where the folder cannot be written or another process
  /// is writing the same file.
  explicit AtomicFile(const std::filesystem::path& path);
  /// Without commit() nothing has happened.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// @throws Error(kRuntime) on a full disk and the like.
  void write(std::span<const std::byte> bytes);
  /// Data to the disk, then the name, then the folder. @throws Error(kRuntime)
  void commit();
  uint64_t n_bytes() const { return n_bytes_; }

 private:
  std::filesystem::path path_, temporary_;
  int fd_ = -1;
  uint64_t n_bytes_ = 0;
};

}  // namespace quern
