// Session files: restored = uninterrupted bit by bit, nothing but the tokens decides what is written, and every way of being wrong is
// refused with the session left as it was.
#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include "base/rng.h"
#include "engine/engine_impl.h"
#include "temp_dir.h"

using namespace quern;
namespace fs = std::filesystem;

namespace {

std::string tiny(const std::string& name) { return (fs::path(QUERN_GOLDEN) / "tiny" / (name + ".gguf")).string(); }

std::shared_ptr<Engine> load(const std::string& path, bool float_activations = false) {
  return Engine::load(path, {.threads = 1, .mmap = true, .float_activations = float_activations, .pre = {}});
}

std::vector<TokenId> some_tokens(size_t n, uint64_t seed = 1, uint64_t n_vocab = 250) {
  Rng rng(seed);
  std::vector<TokenId> tokens(n);
  for (TokenId& t : tokens) t = TokenId(3 + rng.below(n_vocab - 3));
  return tokens;
}

std::vector<float> logits(const Session& session) { return {session.logits().begin(), session.logits().end()}; }
bool same_bits(const std::vector<float>& a, const std::vector<float>& b) { return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0; }

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void write_file(const fs::path& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

std::string message_of(const std::function<void()>& f, ErrorKind* kind = nullptr) {
  try {
    f();
  } catch (const Error& error) {
    if (kind) *kind = error.kind();
    return error.what();
  }
  return "";
}

SessionOptions options_of(const std::string& type, size_t n_ctx = 4096, size_t batch = 512) {
  SessionOptions options;
  options.n_ctx = n_ctx;
  options.k_type = options.v_type = type;
  options.batch = batch;
  return options;
}

}  // namespace

TEST_CASE("a restored session goes on with the same bits as one that was never saved") {
  const testing::TempDir folder;
  const std::string file = (folder.path / "s.quern").string();
  for (const std::string model : {"llama", "gemma3"}) {  // full layers, and layers with windows
    const auto engine = load(tiny(model));
    const auto tokens = some_tokens(700);
    for (const KvType type : all_kv_types()) {
      INFO(model << " " << kv_type_name(type));
      const SessionOptions options = options_of(std::string(kv_type_name(type)));
      const auto whole = engine->new_session(options);
      REQUIRE(whole->sync(std::span(tokens).first(600)) == StepStatus::kDone);
      whole->save(file, "a text of the caller's");
      const auto at_save = logits(*whole);

      // Another batch makes rings of another size.
      for (const size_t batch : {512, 64, 1024}) {
        const auto restored = engine->new_session(options_of(std::string(kv_type_name(type)), 2048, batch));
        REQUIRE(restored->sync(some_tokens(300, 7)) == StepStatus::kDone);  // what it held before leaves no trace
        const RestoredSession got = restored->restore(file);
        CHECK(got.extra == "a text of the caller's");
        CHECK(got.n_tokens == 600);
        CHECK(same_bits(logits(*restored), at_save));
        restored->reset_timings();
        REQUIRE(restored->sync(tokens) == StepStatus::kDone);
        CHECK(restored->timings().reused_tokens == 600);
        CHECK(restored->timings().prefill_tokens == 100);
        const auto again = engine->new_session(options);
        REQUIRE(again->sync(tokens) == StepStatus::kDone);
        CHECK(same_bits(logits(*restored), logits(*again)));
      }
    }
  }
}

TEST_CASE("a restored ring knows how far it can go back") {
  const testing::TempDir folder;
  const std::string file = (folder.path / "s.quern").string();
  const auto engine = load(tiny("gemma3"));
  const auto tokens = some_tokens(1500);
  const auto saver = engine->new_session(options_of("f16", 4096, 64));
  REQUIRE(saver->sync(tokens) == StepStatus::kDone);
  saver->save(file);
  for (const size_t batch : {64, 512}) {
    for (const size_t keep : {1490, 1300, 900, 300}) {
      const auto restored = engine->new_session(options_of("f16", 4096, batch));
      restored->restore(file);
      auto changed = std::vector<TokenId>(tokens.begin(), tokens.begin() + ptrdiff_t(keep));
      changed.push_back(tokens[keep] == 5 ? 6 : 5);
      const auto cold = engine->new_session(options_of("f16"));
      REQUIRE(restored->sync(changed) == StepStatus::kDone);
      REQUIRE(cold->sync(changed) == StepStatus::kDone);
      INFO("batch " << batch << " keep " << keep << " reused " << restored->timings().reused_tokens);
      CHECK(same_bits(logits(*restored), logits(*cold)));
      CHECK((restored->timings().reused_tokens == keep || restored->timings().reused_tokens == 0));
      if (keep == 1490) CHECK(restored->timings().reused_tokens == keep);
    }
  }
}

TEST_CASE("what a longer prompt left behind is not in the file of a shorter one") {
  const testing::TempDir folder;
  const fs::path first = folder.path / "first", second = folder.path / "second";
  const auto engine = load(tiny("llama"));
  const auto tokens = some_tokens(300);
  for (const KvType type : all_kv_types()) {
    INFO(kv_type_name(type));
    const auto clean = engine->new_session(options_of(std::string(kv_type_name(type))));
    REQUIRE(clean->sync(std::span(tokens).first(40)) == StepStatus::kDone);
    clean->save(first);
    const auto used = engine->new_session(options_of(std::string(kv_type_name(type))));
    REQUIRE(used->sync(tokens) == StepStatus::kDone);
    REQUIRE(used->sync(std::span(tokens).first(40)) == StepStatus::kDone);
    used->save(second);
    CHECK(read_file(first) == read_file(second));
    // And a longer saved prompt is kept only as far as it agrees.
    const auto longer = engine->new_session(options_of(std::string(kv_type_name(type))));
    REQUIRE(longer->sync(tokens) == StepStatus::kDone);
    longer->save(first);
    const auto restored = engine->new_session(options_of(std::string(kv_type_name(type))));
    restored->restore(first);
    REQUIRE(restored->sync(std::span(tokens).first(40)) == StepStatus::kDone);
    CHECK(restored->timings().reused_tokens == 39);
    CHECK(restored->tokens().size() == 40);
    CHECK(same_bits(logits(*restored), logits(*clean)));
  }
}

TEST_CASE("a thousand random alterations are refused, and the session stays as it was") {
  const testing::TempDir folder;
  const fs::path file = folder.path / "s";
  const auto engine = load(tiny("llama"));
  const auto session = engine->new_session(options_of("int8"));
  REQUIRE(session->sync(some_tokens(50)) == StepStatus::kDone);
  session->save(file, "text");
  const std::string good = read_file(file);
  const auto before = logits(*session);
  const auto target = engine->new_session(options_of("int8"));
  REQUIRE(target->sync(some_tokens(50, 9)) == StepStatus::kDone);
  const auto target_before = logits(*target);
  Rng rng(3);
  for (int i = 0; i < 1000; ++i) {
    std::string bad = good;
    const size_t at = i % 3 == 0 ? rng.below(4096) : rng.below(bad.size());  // the head more often than its share
    switch (rng.below(5)) {
      case 0: bad[at] = char(bad[at] ^ (1 << rng.below(8))); break;
      case 1: bad.resize(at); break;
      case 2: bad.insert(at, rng.below(100) + 1, char(rng.below(256))); break;
      case 3: bad.erase(at, rng.below(100) + 1); break;
      default:
        for (size_t k = at; k < std::min(at + 16, bad.size()); ++k) bad[k] = char(rng.below(256));
    }
    if (bad == good) continue;
    write_file(file, bad);
    const std::string message = message_of([&] { target->restore(file); });
    INFO("alteration " << i << " at " << at << ": " << message);
    REQUIRE(message.find(file.string()) != std::string::npos);
    REQUIRE(target->tokens().size() == 50);
    REQUIRE(same_bits(logits(*target), target_before));
  }
  write_file(file, good);
  target->restore(file);
  CHECK(same_bits(logits(*target), before));
}

TEST_CASE("a file of another model, setting or kind is refused by name") {
  const testing::TempDir folder;
  const fs::path file = folder.path / "s";
  const auto engine = load(tiny("llama"));
  const auto saver = engine->new_session(options_of("f16"));
  REQUIRE(saver->sync(some_tokens(50)) == StepStatus::kDone);
  saver->save(file);
  ErrorKind kind = ErrorKind::kRuntime;
  const auto refusal = [&](const std::shared_ptr<Engine>& e, const SessionOptions& options) {
    return message_of([&] { e->new_session(options)->restore(file); }, &kind);
  };
  CHECK_THAT(refusal(engine, options_of("int8")), Catch::Contains("K type f16, but this run has int8: give --kv-type f16"));
  CHECK(kind == ErrorKind::kUsage);
  SessionOptions v = options_of("f16");
  v.v_type = "f32";
  CHECK_THAT(refusal(engine, v), Catch::Contains("V type f16"));
  CHECK_THAT(refusal(load(tiny("qwen2")), options_of("f16")), Catch::Contains("fingerprint"));
  CHECK_THAT(refusal(load(tiny("llama"), true), options_of("f16")), Catch::Contains("--act int8"));
  CHECK_THAT(refusal(engine, options_of("f16", 32)), Catch::Contains("tokens: 50") && Catch::Contains("a context of 32"));

  std::string other = read_file(file);
  other[8] = 3;
  write_file(file, other);
  CHECK_THAT(refusal(engine, options_of("f16")), Catch::Contains("format version 3; this quern reads version 2"));
  write_file(file, "Dear diary");
  CHECK_THAT(refusal(engine, options_of("f16")), Catch::Contains("not a session file"));
  CHECK_THAT(message_of([&] { saver->save(file); }, &kind), Catch::Contains("is not replaced"));
  CHECK(kind == ErrorKind::kUsage);
  CHECK(read_file(file) == "Dear diary");
  CHECK_THAT(message_of([&] { engine->new_session(options_of("f16"))->restore(folder.path / "nothing"); }), Catch::Contains("No such file"));
  CHECK_THAT(message_of([&] { saver->save(folder.path / "no/such/folder"); }), Catch::Contains("cannot write"));
  CHECK_THAT(message_of([&] { saver->save(folder.path); }), Catch::Contains("not a regular file"));
}

TEST_CASE("the file of a model with a byte changed is another model") {
  const testing::TempDir folder;
  const fs::path model = folder.path / "m.gguf", file = folder.path / "s";
  std::string bytes = read_file(tiny("llama-q4_1"));
  write_file(model, bytes);
  const auto saver = load(model)->new_session(options_of("f16", 128));
  REQUIRE(saver->sync(some_tokens(20)) == StepStatus::kDone);
  saver->save(file);
  const size_t name = bytes.find("general.name");
  REQUIRE(name != std::string::npos);
  bytes[name + 24] ^= 1;
  write_file(folder.path / "other.gguf", bytes);
  CHECK_THAT(message_of([&] { load(folder.path / "other.gguf")->new_session(options_of("f16", 128))->restore(file); }), Catch::Contains("the model"));
}
