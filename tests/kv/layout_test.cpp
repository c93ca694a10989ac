// The layout's numbers: what a block weighs, how large rings are, and that the sums agree with the parts.
#include "kv/layout.h"

#include <catch2/catch.hpp>

#include "quern/error.h"

using namespace quern;

namespace {

std::vector<KvLayerGeometry> layers(size_t n, uint32_t heads, uint32_t dim, uint32_t window = 0) { return std::vector<KvLayerGeometry>(n, {heads, dim, dim, window}); }

}  // namespace

TEST_CASE("bytes per token follow the formula, scales on top") {
  // SmolLM2-135M: 30 layers, 3 KV heads of 64.
  const auto bytes = [](KvType k, KvType v) {
    const KvLayout layout(layers(30, 3, 64), {.k_type = k, .v_type = v, .n_ctx = 8192});
    return std::pair(layout.bytes_per_token_formula(), layout.bytes_per_token());
  };
  CHECK(bytes(KvType::kF16, KvType::kF16) == std::pair<uint64_t, uint64_t>(23040, 23040));
  CHECK(bytes(KvType::kF32, KvType::kF32) == std::pair<uint64_t, uint64_t>(46080, 46080));
  CHECK(bytes(KvType::kInt8, KvType::kInt8) == std::pair<uint64_t, uint64_t>(11520, 12240));  // 8.5 bits
  CHECK(bytes(KvType::kInt4, KvType::kInt4) == std::pair<uint64_t, uint64_t>(5760, 6480));    // 4.5 bits
  CHECK(bytes(KvType::kFp8, KvType::kFp8) == std::pair<uint64_t, uint64_t>(11520, 11880));    // and 2 bytes a row
  CHECK(bytes(KvType::kInt8, KvType::kInt4) == std::pair<uint64_t, uint64_t>(8640, 9360));
}

TEST_CASE("a head size that is no multiple of the group has a short last group") {
  CHECK(kv_row_size(KvType::kInt8, 80).code_bytes == 80);
  CHECK(kv_row_size(KvType::kInt8, 80).scale_bytes == 6);
  CHECK(kv_row_size(KvType::kInt4, 80).code_bytes == 40);
  CHECK(kv_row_size(KvType::kInt4, 100).code_bytes == 52);  // 3 × 16 and one cell of 4
  CHECK(kv_row_size(KvType::kInt8, 97).code_bytes == 100);
  for (const KvType type : all_kv_types()) {
    for (size_t dim = 1; dim < 300; ++dim) REQUIRE(kv_block_bytes(type, dim) >= 256 * kv_row_size(type, dim).bytes() + (dim % 32 ? 64 : 0));
  }
}

TEST_CASE("a window layer is a ring that holds window and chunk, the others the whole context") {
  // Gemma-3-270M: 18 layers, one KV head of 256, window 512 but on layers 5, 11, 17.
  std::vector<KvLayerGeometry> geometry = layers(18, 1, 256, 512);
  for (const size_t i : {5, 11, 17}) geometry[i].window = 0;
  const KvLayout layout(geometry, {.n_ctx = 32768, .max_chunk = 512});
  CHECK(layout.layer(5).n_pieces == 128);
  CHECK_FALSE(layout.layer(5).is_ring);
  CHECK(layout.layer(0).n_pieces == 5);  // (512 + 512)/256 + 1
  CHECK(layout.layer(0).is_ring);
  CHECK(layout.reserved_bytes() == (3 * 128 + 15 * 5) * uint64_t(256) * 1024);
  CHECK(layout.committed_bytes(32768) == layout.reserved_bytes());
  CHECK(layout.committed_bytes(1) == 18 * uint64_t(256) * 1024);
  CHECK(layout.used_bytes(32768) == (3 * 32768 + 15 * 512) * uint64_t(1024));
  CHECK(layout.slot(0, 4) == 4);
  CHECK(layout.slot(0, 5) == 0);
  CHECK(layout.slot(5, 127) == 127);
  // A context that is smaller than the ring is no ring.
  CHECK(KvLayout(geometry, {.n_ctx = 1024, .max_chunk = 512}).layer(0).n_pieces == 4);
}

TEST_CASE("the user's window has pinned pieces for the sinks and does not end with the context") {
  const KvLayout layout(layers(2, 3, 64), {.n_ctx = 1024, .max_chunk = 512, .policy = {.window = 512, .sinks = 4}});
  CHECK(layout.layer(0).n_pinned == 1);
  CHECK(layout.layer(0).n_pieces == 6);
  CHECK(layout.slot(0, 0) == 0);
  CHECK(layout.slot(0, 5) == 5);
  CHECK(layout.slot(0, 6) == 1);
  CHECK(layout.slot(0, 11) == 1);
  CHECK(layout.committed_bytes(20000) == layout.reserved_bytes());
  // A smaller window of the model's own wins, and has no sinks.
  const KvLayout both(layers(1, 1, 64, 128), {.n_ctx = 1024, .max_chunk = 64, .policy = {.window = 512, .sinks = 4}});
  CHECK(both.layer(0).window == 128);
  CHECK(both.layer(0).sinks == 0);
}

TEST_CASE("a layer that evicts by use has so many rows, and gives a piece's worth back at every piece past them") {
  std::vector<KvLayerGeometry> geometry = layers(2, 3, 64);
  geometry[1].window = 512;
  for (KvLayerGeometry& g : geometry) g.n_heads = 9;
  const KvLayout layout(geometry, {.n_ctx = 8192, .max_chunk = 512, .policy = {.window = 0, .sinks = 0, .heavy = 1000}});
  const KvLayerLayout& l = layout.layer(0);
  CHECK(l.heavy == 1024);  // whole pieces
  CHECK(l.n_pieces == 4);
  CHECK(l.evicted(1023) == 0);
  CHECK(l.evicted(1024) == 256);
  CHECK(l.evicted(1279) == 256);
  CHECK(l.evicted(1280) == 512);
  CHECK(l.held_tokens(1024) == 1024);
  CHECK(l.held_tokens(1025) == 769);
  CHECK(l.held_tokens(1280) == 1024);
  CHECK(l.heavy_bytes() == (16 * 9 * 64 + 2 * 1024 * 3) * sizeof(float));
  CHECK(layout.layer(1).heavy == 0);  // its window is the model's own
  CHECK(layout.heavy_bytes() == l.heavy_bytes());
  CHECK(layout.committed_bytes(8192) == 4 * l.piece_bytes + 5 * layout.layer(1).piece_bytes);
  CHECK(KvLayout(geometry, {.n_ctx = 8192, .policy = {.heavy = 1}}).layer(0).heavy == 512);
}

TEST_CASE("what no layout can do is refused") {
  CHECK_THROWS_AS(KvLayout(layers(1, 1, 64), {.n_ctx = 256, .policy = {.window = 64, .sinks = 0, .heavy = 512}}), Error);
  CHECK_THROWS_AS(KvLayout(layers(1, 1, 64), {.n_ctx = 256, .policy = {.window = 0, .sinks = 4}}), Error);
  CHECK_THROWS_AS(KvLayout(layers(1, 1, 5000), {.n_ctx = 256}), Error);
}

TEST_CASE("type names are read and written") {
  for (const KvType type : all_kv_types()) CHECK(parse_kv_type(kv_type_name(type)) == type);
  CHECK(parse_kv_type("q8_0") == KvType::kInt8);
  CHECK(parse_kv_type("q4_0") == KvType::kInt4);
  CHECK_FALSE(parse_kv_type("int3"));
  CHECK_FALSE(parse_kv_type(""));
}
