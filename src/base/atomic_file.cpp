// write, fsync, rename, fsync of the folder; the order is what makes it safe.
#include "base/atomic_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/check.h"

namespace quern {
namespace {

[[noreturn]] void fail(const char* what, const std::filesystem::path& path) {
  throw_error(ErrorKind::kRuntime, "cannot {} '{}': {}", what, path.string(), std::strerror(errno));
}

/// Opens and locks the temporary file. A name that its last writer renamed in the meantime is opened again: the lock has to be on
/// the file that stands there now.
int open_locked(const std::filesystem::path& path) {
  for (;;) {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) fail("write", path);
    if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
      ::close(fd);
      throw_error(ErrorKind::kRuntime, "another process is writing '{}' now; let it end, or choose another file", path.string());
    }
    struct stat mine, there;
    if (::fstat(fd, &mine) == 0 && ::lstat(path.c_str(), &there) == 0 && mine.st_ino == there.st_ino && mine.st_dev == there.st_dev) return fd;
    ::close(fd);
  }
}

}  // namespace

AtomicFile::AtomicFile(const std::filesystem::path& path) {
  std::error_code ignored;
  path_ = std::filesystem::is_symlink(path, ignored) ? std::filesystem::weakly_canonical(path, ignored) : path;
  if (path_.empty()) path_ = path;
  temporary_ = path_;
  temporary_ += ".tmp";
  fd_ = open_locked(temporary_);
  if (::ftruncate(fd_, 0) != 0) fail("empty", temporary_);
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  ::unlink(temporary_.c_str());
  ::close(fd_);
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t n = ::write(fd_, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("write", temporary_);
    done += size_t(n);
  }
  n_bytes_ += bytes.size();
}

void AtomicFile::commit() {
  if (::fsync(fd_) != 0) fail("bring to the disk", temporary_);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("replace", path_);
  ::close(fd_);
  fd_ = -1;
  const std::filesystem::path folder = path_.has_parent_path() ? path_.parent_path() : ".";
  const int folder_fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder_fd < 0) return;  // readable folders only; the rename itself is done
  ::fsync(folder_fd);
  ::close(folder_fd);
}

}  // namespace quern
