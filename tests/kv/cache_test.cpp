// The cache's memory: committed by use, given back by rewinding, refused in words; and what each query sees.
#include "kv/cache.h"

#include <sys/resource.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <fstream>
#include <string>

#include "quern/error.h"

using namespace quern;

namespace {

KvLayout layout(uint32_t window, size_t n_ctx, KvPolicy policy = {}, size_t max_chunk = 512) {
  return KvLayout({{2, 64, 64, window}, {2, 64, 64, 0}}, {.n_ctx = n_ctx, .max_chunk = max_chunk, .policy = policy});
}

size_t resident_bytes() {
  std::ifstream in("/proc/self/statm");
  size_t size = 0, resident = 0;
  in >> size >> resident;
  return resident * size_t(sysconf(_SC_PAGESIZE));
}

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a cache commits pieces as tokens come, as much as its layout says") {
  KvCache cache(layout(0, 100000));
  CHECK(cache.committed_bytes() == 0);
  for (const size_t n : {1, 256, 257, 1000}) {
    cache.prepare(n);
    CHECK(cache.committed_bytes() == cache.layout().committed_bytes(n));
    std::memset(cache.k_block(1, (n - 1) / 256, 0), 1, cache.layout().layer(1).piece_bytes);
  }
  cache.advance(1000);
  CHECK(cache.rewind(300));
  CHECK(cache.n_tokens() == 300);
  CHECK(cache.committed_bytes() == cache.layout().committed_bytes(768));  // two pieces and one of hysteresis
  CHECK(cache.rewind(0));
  CHECK(cache.committed_bytes() == 0);
}

TEST_CASE("resident memory grows by what is committed and shrinks when rewinding") {
  KvCache cache(KvLayout(std::vector<KvLayerGeometry>(8, {4, 128, 128, 0}), {.n_ctx = 131072}));
  const size_t before = resident_bytes();
  cache.prepare(5000);
  for (size_t i = 0; i < 8; ++i) {
    for (size_t piece = 0; piece < 20; ++piece) std::memset(cache.k_block(i, piece, 0), 1, cache.layout().layer(i).piece_bytes);
  }
  const double grown = double(resident_bytes() - before);
  CHECK(grown == Approx(double(cache.committed_bytes())).epsilon(0.02));
  cache.advance(5000);
  cache.rewind(0);
  CHECK(double(resident_bytes()) < double(before) + 0.02 * grown);
}

TEST_CASE("rows given back read as zero when the cache grows again") {
  KvCache cache(layout(0, 4096));
  cache.prepare(2048);
  cache.k_block(0, 7, 0)[5] = std::byte{9};
  cache.advance(2048);
  REQUIRE(cache.rewind(10));
  cache.prepare(2048);
  CHECK(cache.k_block(0, 7, 0)[5] == std::byte{0});
}

TEST_CASE("a ring can go back as far as its rows reach, and says how far that is") {
  KvCache cache(layout(512, 8192));
  REQUIRE(cache.layout().layer(0).n_pieces == 5);
  cache.prepare(1280);
  cache.advance(1280);
  CHECK(cache.oldest_rewind() == 0);  // nothing overwritten yet
  cache.prepare(2000);
  cache.advance(2000);
  // Pieces 3…7 are held, so the query at n needs n − 511 ≥ 768.
  CHECK(cache.oldest_rewind() == 1279);
  CHECK_FALSE(cache.rewind(1278));
  CHECK(cache.n_tokens() == 2000);
  CHECK(cache.rewind(1279));
  CHECK(cache.n_tokens() == 1279);
  CHECK(cache.oldest_rewind() == 1279);
  CHECK(cache.rewind(0));
  CHECK(cache.oldest_rewind() == 0);
}

TEST_CASE("a step of the largest chunk leaves a ring able to return to the step's start") {
  for (const uint32_t window : {8u, 100u, 256u, 257u, 512u}) {
    for (const size_t chunk : {1, 64, 300, 512}) {
      KvCache cache(layout(window, 100000, {}, chunk));
      for (size_t n = 0; n < 3000; n += chunk) {
        cache.prepare(n + chunk);
        REQUIRE(cache.oldest_rewind() <= n);
        cache.advance(n + chunk);
      }
    }
  }
}

TEST_CASE("a query sees everything, its window, or the sinks and its window") {
  KvSpan spans[KvCache::kMaxSpans];
  const auto seen = [&](const KvCache& cache, size_t layer, size_t position) {
    std::string text;
    const size_t n = cache.spans(layer, position, spans);
    for (size_t i = 0; i < n; ++i) text += std::string(spans[i].sink ? "sink" : "") + "[" + std::to_string(spans[i].begin) + "," + std::to_string(spans[i].end) + ")";
    return text;
  };
  const KvCache model_window(layout(512, 8192));
  CHECK(seen(model_window, 0, 511) == "[0,512)");
  CHECK(seen(model_window, 0, 512) == "[1,513)");
  CHECK(seen(model_window, 1, 5000) == "[0,5001)");
  const KvCache sinks(layout(0, 8192, {.window = 100, .sinks = 4}));
  CHECK(seen(sinks, 0, 103) == "[0,104)");
  CHECK(seen(sinks, 0, 104) == "sink[0,4)[5,105)");
  CHECK(sinks.sink_query_position(50) == 50);
  CHECK(sinks.sink_query_position(5000) == 103);
}

TEST_CASE("lack of memory is refused with the numbers") {
  KvLayoutOptions options{.n_ctx = 4096, .memory_limit_bytes = 1 << 20};
  KvCache limited(KvLayout({{4, 128, 128, 0}}, options));
  limited.prepare(256);
  const std::string limit = message_of([&] { limited.prepare(1024); });
  CHECK(limit.find("2.0 MiB for 1024 tokens") != std::string::npos);
  CHECK(limit.find("limit is 1.0 MiB") != std::string::npos);
  CHECK(limited.committed_bytes() == limited.layout().committed_bytes(256));

  KvCache huge(KvLayout(std::vector<KvLayerGeometry>(64, {64, 256, 256, 0}), {.n_ctx = 1 << 20}));
  CHECK(message_of([&] { huge.prepare(1 << 20); }).find("are available") != std::string::npos);
  CHECK(huge.committed_bytes() == 0);

  rlimit old{};
  getrlimit(RLIMIT_AS, &old);
  rlimit tight = old;
  tight.rlim_cur = rlim_t(1) << 38;
  setrlimit(RLIMIT_AS, &tight);
  const std::string refused = message_of([] { KvCache(KvLayout(std::vector<KvLayerGeometry>(64, {64, 256, 256, 0}), {.n_ctx = 1 << 20})); });
  setrlimit(RLIMIT_AS, &old);
  CHECK(refused.find("4194304.0 MiB") != std::string::npos);
  CHECK(refused.find("RLIMIT_AS is 262144 MiB") != std::string::npos);
}
