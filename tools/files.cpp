// Reading to the end and writing whole, with the reason where that fails.
#include "files.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "quern/error.h"
#include "report_text.h"

namespace quern::cli {
namespace {

constexpr size_t kMostTextBytes = size_t(1) << 30;

void put_page(const std::string& path, const std::string& page, const char* mode) {
  std::FILE* out = std::fopen(path.c_str(), mode);
  const bool written = out && std::fwrite(page.data(), 1, page.size(), out) == page.size();
  if ((out && std::fclose(out) != 0) || !written) throw Error(ErrorKind::kRuntime, fmt::format("--html: writing '{}' failed: {}", path, std::strerror(errno)));
}

}  // namespace

std::string read_all(std::FILE* in, const std::string& name) {
  std::string bytes;
  char buffer[1 << 16];
  for (size_t n; (n = std::fread(buffer, 1, sizeof buffer, in)) > 0;) {
    bytes.append(buffer, n);
    if (bytes.size() > kMostTextBytes) throw Error(ErrorKind::kUsage, fmt::format("{} has more than {}, which no context holds", name, bytes_text(kMostTextBytes)));
  }
  if (std::ferror(in)) throw Error(ErrorKind::kUsage, fmt::format("reading {} failed: {}", name, std::strerror(errno)));
  return bytes;
}

std::string read_text(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> in(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!in) throw Error(ErrorKind::kUsage, fmt::format("-f: cannot open '{}': {}", path, std::strerror(errno)));
  return read_all(in.get(), path);
}

void check_page(const std::string& path) { put_page(path, "", "ab"); }
void write_page(const std::string& path, const std::string& page) { put_page(path, page, "wb"); }

}  // namespace quern::cli
