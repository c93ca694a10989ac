// The checksum notices every single flipped bit and the order of what it reads; the atomic file keeps the old content until commit.
#include "base/checksum.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "temp_dir.h"

using namespace quern;

namespace {

uint64_t sum_of(const std::vector<std::byte>& bytes) {
  Checksum sum;
  sum.update(bytes);
  return sum.value();
}

std::string content(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

TEST_CASE("every flipped bit, every swap and every length changes the checksum") {
  std::vector<std::byte> bytes(256);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = std::byte(i * 7);
  std::set<uint64_t> seen{sum_of(bytes)};
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= std::byte(1 << bit % 8);
    CHECK(seen.insert(sum_of(bytes)).second);
    bytes[bit / 8] ^= std::byte(1 << bit % 8);
  }
  std::swap_ranges(bytes.begin(), bytes.begin() + 32, bytes.begin() + 32);
  CHECK(seen.insert(sum_of(bytes)).second);
  for (const size_t n : {0, 32, 64}) CHECK(seen.insert(sum_of(std::vector<std::byte>(n))).second);
  Checksum parts;
  parts.update(std::span(bytes).first(96));
  parts.update(std::span(bytes).subspan(96));
  CHECK(parts.value() == sum_of(bytes));
}

TEST_CASE("a file is replaced as a whole or not at all") {
  const testing::TempDir folder;
  const std::filesystem::path path = folder.path / "f", link = folder.path / "link";
  const auto write = [](AtomicFile& file, const std::string& text) { file.write(std::as_bytes(std::span(text))); };
  std::ofstream(path) << "old";
  std::filesystem::create_symlink("f", link);
  {
    AtomicFile file(path);
    write(file, "half");
    CHECK(content(path) == "old");
    CHECK_THROWS_WITH(AtomicFile(path), Catch::Contains("another process is writing"));
  }
  CHECK(content(path) == "old");
  CHECK_FALSE(std::filesystem::exists(folder.path / "f.tmp"));
  std::ofstream(folder.path / "f.tmp") << "what a killed writer left, longer than what comes";
  AtomicFile file(link);
  write(file, "new");
  file.commit();
  CHECK(content(path) == "new");
  CHECK(std::filesystem::is_symlink(link));
}
