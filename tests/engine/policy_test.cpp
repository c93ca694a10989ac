// A cache that forgets by the user's policy: the same bits however the tokens came in, memory that does not grow, and a report of what
// was evicted. What forgetting means for the logits is compared with an independent way of computing it in tests/cli/policy_test.py.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>

#include "base/rng.h"
#include "engine/engine_impl.h"
#include "ops/evict.h"
#include "temp_dir.h"

using namespace quern;
namespace fs = std::filesystem;

namespace {

struct Settings {
  std::string type = "f16";
  size_t batch = 512;
  int threads = 1;
  uint32_t window = 300, sinks = 5, heavy = 0;
};

std::shared_ptr<Engine> load(const std::string& model, const char* folder = "tiny") {
  return Engine::load((fs::path(QUERN_GOLDEN) / folder / (model + ".gguf")).string(), {.threads = 2, .mmap = true, .float_activations = false, .pre = {}});
}

std::unique_ptr<Session> open(Engine& engine, const Settings& s) {
  SessionOptions options;
  options.n_ctx = 4096;
  options.k_type = options.v_type = s.type;
  options.batch = s.batch;
  options.threads = s.threads;
  options.kv_window = s.window;
  options.kv_sinks = s.sinks;
  options.kv_heavy = s.heavy;
  return engine.new_session(options);
}

std::vector<TokenId> some_tokens(size_t n, uint64_t seed = 1) {
  Rng rng(seed);
  std::vector<TokenId> tokens(n);
  for (TokenId& t : tokens) t = TokenId(3 + rng.below(247));
  return tokens;
}

/// Logits after every token in [from, n).
std::vector<float> logits_from(Session& session, std::span<const TokenId> tokens, size_t from) {
  std::vector<float> out;
  REQUIRE(session.sync(tokens.first(from)) == StepStatus::kDone);
  for (size_t i = from; i < tokens.size(); ++i) {
    out.insert(out.end(), session.logits().begin(), session.logits().end());
    REQUIRE(session.append(tokens[i]) == StepStatus::kDone);
  }
  out.insert(out.end(), session.logits().begin(), session.logits().end());
  return out;
}

constexpr size_t kBudget = 512;
Settings by_use(const std::string& type, size_t batch = 512, int threads = 1) { return {type, batch, threads, 0, 0, kBudget}; }
/// The same rows with none evicted: eviction by use goes without key frames, so a framed type needs a budget that is never reached.
Settings nothing_evicted(KvType type) { return {std::string(kv_type_name(type)), 512, 1, 0, 0, kv_type_is_framed(type) ? uint32_t(4 * kBudget) : 0u}; }

bool same_bits(std::span<const float> a, std::span<const float> b) { return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0; }

}  // namespace

TEST_CASE("a window with sinks gives the same bits however the tokens came in") {
  const auto tokens = some_tokens(1000);
  for (const std::string model : {"llama", "gemma3"}) {  // full layers, and layers with a window of the model's own
    const auto engine = load(model);
    for (const KvType type : all_kv_types()) {
      INFO(model << " " << kv_type_name(type));
      const std::string name(kv_type_name(type));
      const std::vector<float> whole = open(*engine, {.type = name})->all_logits(tokens);
      for (const size_t batch : {1, 7, 64, 333}) {
        if (batch == 1 && type != KvType::kInt8) continue;  // slow; one type is enough
        CHECK(same_bits(open(*engine, {.type = name, .batch = batch, .threads = batch == 64 ? 2 : 1})->all_logits(tokens), whole));
      }
      const auto decoded = open(*engine, {.type = name, .threads = 2});
      const size_t n_vocab = engine->info().n_vocab, from = 950;
      CHECK(same_bits(logits_from(*decoded, tokens, from), std::span(whole).subspan((from - 1) * n_vocab)));
    }
  }
}

TEST_CASE("a window with sinks is another computation than none, and sinks matter") {
  const auto engine = load("llama");
  const auto tokens = some_tokens(400);
  const size_t row = engine->info().n_vocab;
  const auto at = [&](const std::vector<float>& logits, size_t position) { return std::span(logits).subspan(position * row, row); };
  const std::vector<float> full = open(*engine, {.window = 0, .sinks = 0})->all_logits(tokens), window = open(*engine, {.window = 100, .sinks = 0})->all_logits(tokens);
  const std::vector<float> sinks = open(*engine, {.window = 100, .sinks = 8})->all_logits(tokens);
  CHECK(same_bits(at(full, 99), at(window, 99)));
  CHECK_FALSE(same_bits(at(full, 100), at(window, 100)));
  CHECK(same_bits(at(full, 107), at(sinks, 107)));
  CHECK_FALSE(same_bits(at(full, 108), at(sinks, 108)));
  CHECK_FALSE(same_bits(at(window, 399), at(sinks, 399)));
}

TEST_CASE("a restored window goes on with the same bits, and one of other sizes is refused by name") {
  const testing::TempDir folder;
  const std::string file = (folder.path / "s.quern").string();
  const auto tokens = some_tokens(1100);
  for (const std::string model : {"llama", "gemma3"}) {
    const auto engine = load(model);
    for (const KvType type : all_kv_types()) {
      INFO(model << " " << kv_type_name(type));
      const std::string name(kv_type_name(type));
      const auto whole = open(*engine, {.type = name});
      REQUIRE(whole->sync(std::span(tokens).first(900)) == StepStatus::kDone);
      whole->save(file);
      const auto restored = open(*engine, {.type = name, .batch = 100, .threads = 2});
      CHECK(restored->restore(file).n_tokens == 900);
      REQUIRE(whole->sync(tokens) == StepStatus::kDone);
      REQUIRE(restored->sync(tokens) == StepStatus::kDone);
      CHECK(restored->timings().reused_tokens == 900);
      CHECK(same_bits(whole->logits(), restored->logits()));
    }
    const auto refusal = [&](const Settings& settings) {
      try {
        open(*engine, settings)->restore(file);
      } catch (const Error& error) {
        return std::string(error.what());
      }
      return std::string();
    };
    CHECK(refusal({.type = "int4", .window = 299}).find("a cache window of 300, but this run has 299") != std::string::npos);
    CHECK(refusal({.type = "int4", .sinks = 0}).find("sink tokens: 5, but this run has 0") != std::string::npos);
  }
}

TEST_CASE("a prefix is re-used as far back as the ring reaches, and read again beyond, with the bits of a cold start") {
  const auto engine = load("llama");
  const auto tokens = some_tokens(1500), other = some_tokens(1500, 2);
  const auto session = open(*engine, {.batch = 128});
  for (const size_t common : {1499, 1480, 1300, 600, 310, 3}) {
    REQUIRE(session->sync(tokens) == StepStatus::kDone);
    session->reset_timings();
    std::vector<TokenId> next(tokens.begin(), tokens.begin() + ptrdiff_t(common));
    next.insert(next.end(), other.begin(), other.begin() + 40);
    const size_t oldest = session->impl().cache.oldest_rewind();
    REQUIRE(session->sync(next) == StepStatus::kDone);
    INFO(common << " in common, the ring goes back to " << oldest);
    CHECK(session->timings().reused_tokens == (common >= oldest ? common : 0));
    CHECK(session->timings().reread_tokens == (common >= oldest ? 0 : common));
    const auto cold = open(*engine, {.batch = 512, .threads = 2});
    REQUIRE(cold->sync(next) == StepStatus::kDone);
    CHECK(same_bits(session->logits(), cold->logits()));
  }
}

TEST_CASE("text without end: memory stays flat, the context is never full, and the report says what was evicted") {
  const auto engine = load("llama");
  const auto session = open(*engine, {.type = "int8", .batch = 256, .window = 200, .sinks = 4});
  const auto tokens = some_tokens(79 * 256);
  CHECK(session->n_ctx() == 204);
  CHECK(session->is_endless());
  REQUIRE(session->sync(std::span(tokens).first(6 * 256)) == StepStatus::kDone);
  const uint64_t committed = session->report().committed_bytes;
  const size_t workspace = session->impl().workspace.attention.size();
  REQUIRE(session->sync(tokens) == StepStatus::kDone);
  CHECK_FALSE(session->is_full());
  const KvReport report = session->report();
  CHECK(report.committed_bytes == committed);
  CHECK(report.committed_bytes == session->impl().cache.layout().reserved_bytes());
  CHECK(session->impl().workspace.attention.size() == workspace);
  CHECK(report.used_tokens == tokens.size());
  CHECK(report.policy == "window 200, sinks 4");
  CHECK(report.evicted_tokens == tokens.size() - 204);
  CHECK(report.first_evicted == 4);
  uint64_t frames = 0;
  for (const KvLayerReport& layer : report.per_layer) frames += layer.kv_heads * kv_frame_bytes(KvType::kInt8, layer.k_dim);
  CHECK(report.used_bytes == 204 * report.bytes_per_token + frames);
  for (const KvLayerReport& layer : report.per_layer) CHECK(layer.rows == 204);
}

TEST_CASE("a model that knows its positions by heart has no text without end") {
  CHECK_THROWS_WITH(open(*load("gpt2"), {}), Catch::Contains("knows 64 positions by heart"));
}

TEST_CASE("eviction by use gives the same bits however the tokens came in") {
  const auto tokens = some_tokens(1100);  // decisions at 512, 768 and 1024
  for (const std::string model : {"llama", "gemma3"}) {
    const auto engine = load(model);
    const size_t n_vocab = engine->info().n_vocab;
    for (const KvType type : all_kv_types()) {
      INFO(model << " " << kv_type_name(type));
      const std::string name(kv_type_name(type));
      const std::vector<float> whole = open(*engine, by_use(name))->all_logits(tokens);
      CHECK(same_bits(open(*engine, by_use(name, 64, 2))->all_logits(tokens), whole));
      CHECK(same_bits(open(*engine, by_use(name, 333))->all_logits(tokens), whole));
      if (type == KvType::kInt8) CHECK(same_bits(open(*engine, by_use(name, 7))->all_logits(tokens), whole));
      const size_t from = 1010;
      CHECK(same_bits(logits_from(*open(*engine, by_use(name, 512, 2)), tokens, from), std::span(whole).subspan((from - 1) * n_vocab)));
      const std::vector<float> full = open(*engine, nothing_evicted(type))->all_logits(tokens);
      CHECK(same_bits(std::span(full).first(kBudget * n_vocab), std::span(whole).first(kBudget * n_vocab)));
      CHECK_FALSE(same_bits(std::span(full).last(n_vocab), std::span(whole).last(n_vocab)));
    }
  }
}

TEST_CASE("a cache that evicts by use goes back as far as its last decision, a little further than asked where queries are watched") {
  const auto engine = load("llama");
  const auto tokens = some_tokens(1022), other = some_tokens(1022, 2);
  const auto session = open(*engine, by_use("int8", 128));
  // {held, common, re-used}: positions 240 to 255 of a piece are watched; decisions are made before 512 and 768.
  for (const auto& [held, common, reused] : {std::array<size_t, 3>{1022, 1015, 1008}, {1022, 990, 990}, {1022, 768, 768}, {1022, 760, 0}, {510, 505, 496}, {510, 300, 300}}) {
    INFO(held << " held, " << common << " in common");
    REQUIRE(session->sync(std::span(tokens).first(held)) == StepStatus::kDone);
    session->reset_timings();
    std::vector<TokenId> next(tokens.begin(), tokens.begin() + ptrdiff_t(common));
    next.insert(next.end(), other.begin(), other.begin() + 40);
    REQUIRE(session->sync(next) == StepStatus::kDone);
    CHECK(session->timings().reused_tokens == reused);
    const auto cold = open(*engine, by_use("int8", 512, 2));
    REQUIRE(cold->sync(next) == StepStatus::kDone);
    CHECK(same_bits(session->logits(), cold->logits()));
  }
}

TEST_CASE("what stays are the latest rows and, of the others, those that the last queries look at most") {
  const auto engine = load("llama");
  const auto tokens = some_tokens(kBudget + 1);
  for (const KvType type : all_kv_types()) {
    INFO(kv_type_name(type));
    const std::string name(kv_type_name(type));
    const auto full = open(*engine, nothing_evicted(type)), session = open(*engine, by_use(name));
    REQUIRE(full->sync(std::span(tokens).first(kBudget)) == StepStatus::kDone);
    REQUIRE(session->sync(std::span(tokens).first(kBudget)) == StepStatus::kDone);
    KvCache &whole = full->impl().cache, &cache = session->impl().cache;
    const KvLayerLayout& l = cache.layout().layer(0);
    const size_t dim = l.geometry.k_dim, group = l.geometry.n_heads / l.geometry.n_kv_heads, n_kept = kBudget - kPiecePositions, n_recent = ops::recent_rows_kept(n_kept);
    const kernels::Kernels& k = engine->impl().kernels;
    const auto key = [&](KvCache& from, size_t layer, size_t head, size_t row) {
      std::vector<float> x(dim);
      k.attention->load_k(type, from.k_block(layer, row / kPiecePositions, head), dim, row % kPiecePositions, x.data());
      return x;
    };
    const auto value = [&](KvCache& from, size_t layer, size_t head, size_t row) {
      std::vector<float> x(l.geometry.v_dim);
      k.attention->load_v(type, from.v_block(layer, row / kPiecePositions, head), l.geometry.v_dim, row % kPiecePositions, x.data());
      return x;
    };
    // The watched queries, in double arithmetic, before the decision is made.
    std::vector<std::vector<double>> use(cache.layout().n_layers() * l.geometry.n_kv_heads, std::vector<double>(kBudget));
    for (size_t unit = 0; unit < use.size(); ++unit) {
      const size_t layer = unit / l.geometry.n_kv_heads, head = unit % l.geometry.n_kv_heads;
      for (size_t position = kBudget - kObservedQueries; position < kBudget; ++position) {
        for (size_t i = 0; i < group; ++i) {
          const float* observed = cache.observed_query(layer, position, head * group + i);
          REQUIRE(observed);
          std::vector<float> q(observed, observed + dim);
          if (kv_type_is_rotated(type)) k.vector->hadamard(q.data(), dim);
          std::vector<double> weights;
          double sum = 0;
          for (size_t row = 0; row <= position; ++row) {
            const auto x = key(whole, layer, head, row);
            double score = 0;
            for (size_t d = 0; d < dim; ++d) score += double(q[d]) * double(x[d]);
            weights.push_back(std::exp(score * double(engine->impl().model.params.attention_scale)));
            sum += weights.back();
          }
          for (size_t row = 0; row <= position; ++row) use[unit][row] += weights[row] / sum;
        }
      }
    }
    REQUIRE(session->append(tokens[kBudget]) == StepStatus::kDone);
    for (size_t unit = 0; unit < use.size(); ++unit) {
      const size_t layer = unit / l.geometry.n_kv_heads, head = unit % l.geometry.n_kv_heads;
      const KvCache::HeadUse kept = cache.use(layer, head);
      std::vector<bool> stays(kBudget);
      for (size_t row = 0; row < n_kept; ++row) {
        if (row > 0) REQUIRE(kept.positions[row] > kept.positions[row - 1]);
        stays[kept.positions[row]] = true;
        CHECK(key(cache, layer, head, row) == key(whole, layer, head, kept.positions[row]));
        CHECK(value(cache, layer, head, row) == value(whole, layer, head, kept.positions[row]));
      }
      double least_kept = 1e9, most_dropped = 0;
      for (size_t position = 0; position < kBudget; ++position) {
        if (position >= kBudget - n_recent) REQUIRE(stays[position]);
        else if (stays[position]) least_kept = std::min(least_kept, use[unit][position]);
        else most_dropped = std::max(most_dropped, use[unit][position]);
      }
      CHECK(least_kept > most_dropped - 1e-5);
    }
  }
}

TEST_CASE("eviction by use holds its budget, says so, and refuses what it cannot do") {
  const auto engine = load("llama");
  const auto session = open(*engine, by_use("f16"));
  REQUIRE(session->sync(some_tokens(3000)) == StepStatus::kDone);
  const KvReport report = session->report();
  CHECK(report.policy == "heavy 512");
  CHECK(report.used_tokens == 3000);
  CHECK(report.committed_bytes == session->impl().cache.layout().committed_bytes(512));
  const size_t rows = 256 + (3000 - 1 - 512) % 256 + 1;
  CHECK(report.used_bytes == rows * report.bytes_per_token);
  CHECK(report.evicted_tokens == 3000 - rows);
  CHECK(report.policy_bytes == session->impl().cache.layout().heavy_bytes());
  CHECK(report.policy_bytes > 0);
  CHECK_THROWS_WITH(session->save("x.quern"), Catch::Contains("cannot hold a cache that evicts by use"));
  CHECK_THROWS_WITH(open(*engine, {.heavy = 512}), Catch::Contains("two policies"));
}

TEST_CASE("eviction by use is refused where rows cannot move: latent attention and ALiBi; windows and sinks are not") {
  const struct { const char* model; const char* folder; const char* reason; } cases[] = {{"deepseek2", "tiny", "not made for latent attention"},
                                                                                       {"deepseek2-kvb", "tiny", "not made for latent attention"},
                                                                                       {"bloom", "archs", "tells distances by where they stand (ALiBi)"},
                                                                                       {"refact", "archs", "tells distances by where they stand (ALiBi)"}};
  for (const auto& [model, folder, reason] : cases) {
    INFO(model);
    const auto engine = load(model, folder);
    CHECK_THROWS_WITH(open(*engine, by_use("f16")), Catch::Contains(reason) && Catch::EndsWith("leave out --kv-evict"));
    SessionOptions options;
    options.n_ctx = 4096;
    options.kv_heavy = 512;
    CHECK_THROWS_WITH(engine->plan(options, 100), Catch::Contains(reason));
    try {
      open(*engine, by_use("int4"));
      FAIL("not refused");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::kUsage);
    }
    CHECK(open(*engine, {})->sync(some_tokens(20)) == StepStatus::kDone);
  }
}
