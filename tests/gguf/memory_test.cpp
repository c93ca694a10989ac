// Parsing hostile files takes memory in proportion to their size, whatever their counts say. Counts every allocation of
// the test program by replacing operator new.
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <new>
#include <string>

#include "bad_gguf/builder.h"
#include "base/check.h"
#include "gguf/gguf.h"

namespace {

std::atomic<size_t> allocated_bytes{0};

}  // namespace

void* operator new(size_t n_bytes, const std::nothrow_t&) noexcept {
  allocated_bytes += n_bytes;
  return std::malloc(n_bytes ? n_bytes : 1);
}
void* operator new(size_t n_bytes) {
  if (void* p = operator new(n_bytes, std::nothrow)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept {
  std::free(p);
}
void operator delete(void* p, size_t) noexcept {
  std::free(p);
}

using namespace quern;
using namespace quern::gguf::testing;

namespace {

/// Bytes allocated, freed or not, while parsing.
size_t parse_cost(const std::string& bytes) {
  const size_t before = allocated_bytes;
  try {
    gguf::parse(as_bytes(bytes));
  } catch (const Error&) {
  }
  return allocated_bytes - before;
}

/// Everything that parsing allocates, temporary texts included, per byte of the file.
constexpr size_t kBytesPerByte = 64;

}  // namespace

TEST_CASE("counts that lie cost nothing") {
  File tensors, key_values;
  tensors.n_tensors = int64_t(1) << 60;
  key_values.n_key_values = int64_t(1) << 60;
  CHECK(parse_cost(tensors.bytes()) < 4096);
  CHECK(parse_cost(key_values.bytes()) < 4096);
  File array;
  array.key_values.push_back(kv("k", kArray, Bytes().u32(kString).u64(1ull << 40)));
  CHECK(parse_cost(array.bytes()) < 4096);
}

TEST_CASE("many small things cost in proportion") {
  File strings;
  Bytes array;
  array.u32(kString).u64(200000);
  for (int i = 0; i < 200000; ++i) array.string("");
  strings.key_values.push_back(kv("k", kArray, array));
  const std::string many_strings = strings.bytes();
  CHECK(parse_cost(many_strings) < many_strings.size() * kBytesPerByte);

  File file;
  for (int i = 0; i < 20000; ++i) {
    file.key_values.push_back(kv(std::to_string(i), kU8, Bytes().u8(0)));
    file.tensors.push_back(tensor(std::to_string(i), {1}, 24, uint64_t(i) * 32));
  }
  file.data_bytes = 20000 * 32;
  const std::string many_entries = file.bytes();
  const size_t cost = parse_cost(many_entries);
  INFO(cost << " for " << many_entries.size());
  CHECK(cost < many_entries.size() * kBytesPerByte);

  // The counts are the largest that the bytes left could justify, and none of it is there.
  File lying;
  lying.data_bytes = 1 << 20;
  lying.n_key_values = (1 << 20) / 14;
  CHECK(parse_cost(lying.bytes()) < lying.bytes().size() * kBytesPerByte);
}
