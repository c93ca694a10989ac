// A file's bytes, read-only: mapped, or read into memory. Owns the mapping; knows nothing of formats.
#pragma once
#include <cstddef>
#include <filesystem>
#include <span>

namespace quern {

class MappedFile {
 public:
  enum class Mode { kMap, kRead };
  MappedFile() = default;
  /// @throws Error(kModel) naming the path and the reason (missing, a directory, unreadable, empty).
  explicit MappedFile(const std::filesystem::path& path, Mode mode = Mode::kMap);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::filesystem::path& path() const { return path_; }

  /// Brings a part of a mapping into memory and this process's page tables; returns when that is done.
  static void page_in(std::span<const std::byte> bytes);

 private:
  void close() noexcept;
  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace quern
