// Logits against independent references, and the same bits however they are computed: every instruction set, chunk size and
// thread count, alone and in a batch, mapped and read.
#include "engine/golden_cases.h"

using namespace quern;
using namespace quern::test;

TEST_CASE("tiny models give the reference's logits with float activations") {
  for (const Case& c : all_cases()) {
    INFO(c.name);
    auto got = logits_of(c.path, c.tokens, c.n_ctx, {.float_activations = true, .kv_type = "f32"});
    const double tolerance = c.tolerance() * c.logit_std;
    CHECK(worst_error(got, c.reference) <= tolerance);
    got[got.size() / 2] += float(2 * tolerance);  // the planted fault
    REQUIRE_FALSE(worst_error(got, c.reference) <= tolerance);
  }
}

TEST_CASE("a model with learned positions refuses a longer context") {
  const Case c = load_case("gpt2");
  CHECK_THROWS_AS(logits_of(c.path, c.tokens, 65, {}), Error);
  CHECK_NOTHROW(logits_of(c.path, c.tokens, 64, {}));
}

TEST_CASE("int8 activations stay within twice the reference engine's own divergence") {
  size_t n_quantized = 0;
  for (const Case& c : all_cases()) {
    if (c.weights == "F32") continue;
    INFO(c.name);
    const auto got = logits_of(c.path, c.tokens, c.n_ctx, {});
    REQUIRE(c.kl_bar > 0);
    CHECK(mean_kl(c.reference, got, c.n_vocab()) <= c.kl_bar);
    ++n_quantized;
  }
  REQUIRE(n_quantized >= 20);
}

TEST_CASE("chunks, threads and the way of reading the file do not change a bit") {
  for (const Case& c : one_of_each()) {
    for (const bool float_activations : {false, true}) {
      const auto whole = logits_of(c.path, c.tokens, c.n_ctx, {.float_activations = float_activations});
      INFO(c.name << " float activations " << float_activations);
      for (const size_t batch : {1, 7, 16}) CHECK(same_bits(whole, logits_of(c.path, c.tokens, c.n_ctx, {.float_activations = float_activations, .batch = batch})));
      for (const int threads : {2, 3}) CHECK(same_bits(whole, logits_of(c.path, c.tokens, c.n_ctx, {.float_activations = float_activations, .threads = threads})));
      CHECK(same_bits(whole, logits_of(c.path, c.tokens, c.n_ctx, {.float_activations = float_activations, .mmap = false})));
    }
    CHECK_FALSE(same_bits(logits_of(c.path, c.tokens, c.n_ctx, {}), logits_of(c.path, c.tokens, c.n_ctx, {.kv_type = "f32"})));
  }
}

namespace {

/// The last logits of each sequence, computed in one forward (all sequences together) on a given instruction set.
std::vector<float> batched_logits(const Model& model, kernels::Isa isa, const std::vector<std::vector<TokenId>>& sequences, int threads) {
  const kernels::Kernels& table = *kernels::kernels_for(isa);
  std::vector<KvLayerGeometry> geometry = kv_geometry(model.params);
  KvLayoutOptions layout;
  layout.n_ctx = 256;
  std::vector<std::unique_ptr<KvCache>> caches;
  std::vector<RopeTable> ropes;
  for (const RopeParams& rope : model.params.ropes) ropes.push_back(make_rope_table(rope, model.weights.rope_factors));
  std::vector<Segment> segments;
  for (const auto& tokens : sequences) {
    caches.push_back(std::make_unique<KvCache>(KvLayout(geometry, layout)));
    caches.back()->prepare(tokens.size());
    segments.push_back({caches.back().get(), tokens, 0, 1, ropes});
  }
  std::vector<float> logits(sequences.size() * model.params.n_vocab);
  ops::Workspace workspace;
  REQUIRE(forward(model, table, workspace, segments, {.n_threads = threads}, logits.data()).status == ForwardStatus::kDone);
  return logits;
}

}  // namespace

TEST_CASE("every instruction set gives the same bits, and sequences do not feel each other") {
  for (const kernels::Isa isa : {kernels::Isa::kAvx2, kernels::Isa::kAvx512}) {
    if (!kernels::kernels_for(isa)) WARN("skipped: this CPU has no " << (isa == kernels::Isa::kAvx2 ? "avx2" : "avx512"));
  }
  for (const Case& c : one_of_each()) {
    const Model model(c.path, MappedFile::Mode::kMap, {});
    const std::vector<TokenId> first(c.tokens.begin(), c.tokens.begin() + 31), second(c.tokens.begin() + 3, c.tokens.end());
    const auto scalar = batched_logits(model, kernels::Isa::kScalar, {first, second}, 1);
    INFO(c.name);
    for (const kernels::Isa isa : {kernels::Isa::kAvx2, kernels::Isa::kAvx512}) {
      if (!kernels::kernels_for(isa)) continue;
      CHECK(same_bits(scalar, batched_logits(model, isa, {first, second}, 2)));
    }
    auto alone = batched_logits(model, kernels::Isa::kScalar, {first}, 1);
    const auto other = batched_logits(model, kernels::Isa::kScalar, {second}, 1);
    alone.insert(alone.end(), other.begin(), other.end());
    CHECK(same_bits(scalar, alone));
  }
}

TEST_CASE("every KV type gives the same bits in chunks and on threads, and stays near the f32 cache") {
  for (const std::string name : {"llama-q4_1", "gemma3", "gpt-oss", "deepseek2"}) {
    const Case c = load_case(name);
    const auto reference = logits_of(c.path, c.tokens, c.n_ctx, {.float_activations = true, .kv_type = "f32"});
    // Where a random router is nearly undecided, a small change of the cache changes experts, and that is seen in the logits.
    const bool has_experts = name == "gpt-oss" || name == "deepseek2";
    const struct { const char* type; double dense_bar, expert_bar; } bars[] = {{"f16", 1e-5, 1e-5}, {"bf16", 1e-3, 1e-3}, {"int8", 1e-3, 0.05}, {"fp8", 0.02, 0.2}, {"int4", 0.2, 0.6}};
    for (const auto& [type, dense_bar, expert_bar] : bars) {
      const auto whole = logits_of(c.path, c.tokens, c.n_ctx, {.float_activations = true, .kv_type = type});
      INFO(name << " " << type);
      CHECK(same_bits(whole, logits_of(c.path, c.tokens, c.n_ctx, {.float_activations = true, .kv_type = type, .threads = 2, .batch = 7})));
      const double kl = mean_kl(reference, whole, reference.size() / c.tokens.size());
      CHECK(kl <= (has_experts ? expert_bar : dense_bar));
      CHECK(kl > 0);  // it is another cache, not the same one
    }
  }
}

namespace {

void keeps_the_prefix(const Case& c) {
  INFO(c.name);
  const auto engine = Engine::load(c.path, {.threads = 2, .mmap = true, .float_activations = false, .pre = {}});
  SessionOptions options;
  options.n_ctx = options.rope_ctx = c.n_ctx;
  const auto warm = engine->new_session(options);
  auto changed = c.tokens;
  changed[20] = changed[20] == 5 ? 6 : 5;
  REQUIRE(warm->sync(changed) == StepStatus::kDone);
  warm->reset_timings();
  REQUIRE(warm->sync(c.tokens) == StepStatus::kDone);
  CHECK(warm->timings().reused_tokens == 20);
  CHECK(warm->timings().prefill_tokens == c.tokens.size() - 20);
  const auto cold = engine->new_session(options);
  REQUIRE(cold->sync(c.tokens) == StepStatus::kDone);
  CHECK(std::memcmp(warm->logits().data(), cold->logits().data(), warm->logits().size_bytes()) == 0);

  std::atomic<bool> cancelled{true};
  const auto stopped = engine->new_session(options);
  CHECK(stopped->sync(c.tokens, &cancelled) == StepStatus::kCancelled);
  REQUIRE(stopped->sync(c.tokens) == StepStatus::kDone);
  CHECK(std::memcmp(stopped->logits().data(), cold->logits().data(), cold->logits().size_bytes()) == 0);
}

}  // namespace

TEST_CASE("a session keeps the common prefix and gives the same bits as a cold one") {
  for (const Case& c : one_of_each()) keeps_the_prefix(c);
}

TEST_CASE("SmolLM2 gives the same bits in chunks, on threads and on every instruction set") {
  const fs::path path = fs::path(QUERN_MODELS) / "SmolLM2-135M-Instruct.Q4_1.gguf";
  if (!fs::exists(path)) {
    WARN("skipped: " << path.filename() << " is not in models/; tools/test --models fetches it");
    return;
  }
  std::vector<TokenId> tokens;
  for (TokenId i = 0; i < 80; ++i) tokens.push_back(500 + i * 37 % 4000);
  const auto whole = logits_of(path.string(), tokens, 128, {.threads = 2});
  CHECK(same_bits(whole, logits_of(path.string(), tokens, 128, {.threads = 1, .batch = 7})));
  CHECK(same_bits(whole, logits_of(path.string(), tokens, 128, {.threads = 3, .batch = 64, .mmap = false})));
  const Model model(path, MappedFile::Mode::kMap, {});
  const std::vector<TokenId> few(tokens.begin(), tokens.begin() + 12), others(tokens.begin() + 5, tokens.begin() + 11);
  const auto scalar = batched_logits(model, kernels::Isa::kScalar, {few}, 2);
  for (const kernels::Isa isa : {kernels::Isa::kAvx2, kernels::Isa::kAvx512}) {
    if (!kernels::kernels_for(isa)) continue;
    CHECK(same_bits(scalar, batched_logits(model, isa, {few}, 2)));
    auto together = batched_logits(model, isa, {few, others}, 2);
    together.resize(scalar.size());
    CHECK(same_bits(scalar, together));
  }
}
