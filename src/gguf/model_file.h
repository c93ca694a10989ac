// A GGUF model on disk: one file, or a split set found from its first part ("-00001-of-0000N.gguf").
#pragma once
#include <filesystem>
#include <vector>

#include "base/mapped_file.h"
#include "gguf/gguf.h"

namespace quern::gguf {

class ModelFile {
 public:
  /// Opens `path` and, for a split set, the other parts beside it.
  /// @throws Error(kModel): not readable, bad, or a part missing, misordered or of another model (named).
  explicit ModelFile(const std::filesystem::path& path, MappedFile::Mode mode = MappedFile::Mode::kMap);

  /// Metadata of the first part; tensors of all parts, each with its `data` span.
  const Header& header() const { return header_; }
  const std::vector<MappedFile>& parts() const { return parts_; }
  uint64_t total_bytes() const;

 private:
  void add_part(Header&& part, uint32_t i);
  void check_total() const;

  std::vector<MappedFile> parts_;
  Header header_;
};

}  // namespace quern::gguf
