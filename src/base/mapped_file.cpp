// mmap keeps the resident set at what is really touched; both ways give the same bytes.
#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace quern {
namespace {

struct Descriptor {
  int fd;
  ~Descriptor() { if (fd >= 0) ::close(fd); }
};

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path, Mode mode) : path_(path) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0) throw_error(ErrorKind::kModel, "cannot open '{}': {}", path.string(), std::strerror(errno));
  struct stat info;
  if (::fstat(file.fd, &info) != 0) throw_error(ErrorKind::kModel, "cannot stat '{}': {}", path.string(), std::strerror(errno));
  if (S_ISDIR(info.st_mode)) throw_error(ErrorKind::kModel, "'{}' is a directory, not a file; name the .gguf file in it", path.string());
  if (!S_ISREG(info.st_mode)) throw_error(ErrorKind::kModel, "'{}' is not a regular file", path.string());
  if (info.st_size == 0) throw_error(ErrorKind::kModel, "'{}' is empty (0 bytes)", path.string());
  size_ = size_t(info.st_size);
  const int protection = mode == Mode::kMap ? PROT_READ : PROT_READ | PROT_WRITE;
  const int flags = mode == Mode::kMap ? MAP_PRIVATE : MAP_PRIVATE | MAP_ANONYMOUS;
  void* address = ::mmap(nullptr, size_, protection, flags, mode == Mode::kMap ? file.fd : -1, 0);
  if (address == MAP_FAILED) throw_error(ErrorKind::kRuntime, "cannot map {} bytes of '{}': {}", size_, path.string(), std::strerror(errno));
  data_ = static_cast<const std::byte*>(address);
  if (mode == Mode::kMap) return;
  for (size_t done = 0; done < size_;) {
    const ssize_t n = ::pread(file.fd, static_cast<char*>(address) + done, size_ - done, off_t(done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      close();
      throw_error(ErrorKind::kModel, "reading '{}' stopped at byte {} of {}: {}", path.string(), done, size_, n < 0 ? std::strerror(errno) : "end of file");
    }
    done += size_t(n);
  }
}

MappedFile::MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this != &other) {
    close();
    path_ = std::move(other.path_);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

MappedFile::~MappedFile() { close(); }

void MappedFile::page_in(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  const size_t page = size_t(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(bytes.data()) / page * page;
  const auto end = reinterpret_cast<uintptr_t>(bytes.data() + bytes.size());
#ifdef MADV_POPULATE_READ
  if (::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_READ) == 0) return;
#endif
  for (uintptr_t at = begin; at < end; at += page) *reinterpret_cast<const volatile std::byte*>(at);  // before Linux 5.14
}

void MappedFile::close() noexcept {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
  data_ = nullptr;
}

}  // namespace quern
