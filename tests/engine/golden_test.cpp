// Logits against independent references, and the same bits however they are computed: every instruction set, chunk size and
// thread count, alone and in a batch, mapped and read.
#include "engine/golden_cases.h"

#include <array>

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

TEST_CASE("the groups of experts are seen in the logits, under sigmoid and under softmax gating") {
  for (const Case& c : all_cases()) {
    if (c.name != "deepseek2" && c.name != "dots1-groups") continue;
    INFO(c.name);
    const auto engine = Engine::load(c.path, {.threads = 1, .mmap = true, .float_activations = true, .pre = {}});
    RouterRule& rule = engine->impl().model.params.router;
    REQUIRE(rule.gating == (c.name == "deepseek2" ? ExpertGating::kSigmoid : ExpertGating::kSoftmax));
    REQUIRE(rule.n_groups_used < rule.n_groups);
    rule.n_groups_used = rule.n_groups;  // the planted fault
    SessionOptions options;
    options.n_ctx = options.rope_ctx = c.n_ctx;
    options.k_type = options.v_type = "f32";
    CHECK(worst_error(engine->new_session(options)->all_logits(c.tokens), c.reference) > 0.1 * c.logit_std);
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

// "Near the f32 cache" is what was measured, times 1.5: already int8 keys without their frames are caught. It is measured with
// every expert used, because the choice of the best few is discontinuous and a router of random weights often nearly undecided. With the
// choice, 2 of deepseek2's 96 turn under int8 and make its divergence 0.026 instead of 0.0009, 10 of gpt-oss's 192 under fp8 and make it
// 0.059 instead of 0.023, and other models with experts do the same (hunyuan-moe under int8: 0.014 instead of 0.0001). With
// the choice held fast, the divergence goes with the square of noise on the rows in all of them (deepseek2: 0.000065, 0.00026, 0.0010,
// 0.0042, 0.017 for noise of 0.002, doubled each time). What then is left between the models is how much their attention makes of noise, and that
// latent rows have no frames.
TEST_CASE("every KV type gives the same bits in chunks and on threads, and stays near the f32 cache") {
  constexpr std::array types = {"f16", "bf16", "int8", "fp8", "int4"};
  const struct { const char* name; std::array<double, 5> measured; } models[] = {{"llama-q4_1", {2.1e-7, 1.22e-5, 9.9e-5, 0.00196, 0.0177}},
                                                                                {"gemma3", {8.4e-7, 5.6e-5, 5.3e-4, 0.0093, 0.114}},
                                                                                {"qwen3moe", {2.1e-7, 1.32e-5, 1.08e-4, 0.00217, 0.0169}},
                                                                                {"gpt-oss", {1.1e-6, 1.02e-4, 1.03e-3, 0.0233, 0.216}},
                                                                                {"deepseek2", {6.3e-7, 5.2e-5, 8.7e-4, 0.0091, 0.140}}};
  for (const auto& [name, measured] : models) {
    const Case c = load_case(name);
    const auto reference = logits_of(c.path, c.tokens, c.n_ctx, {.float_activations = true, .kv_type = "f32", .every_expert = true});
    for (size_t i = 0; i < types.size(); ++i) {
      INFO(name << " " << types[i]);
      const auto whole = logits_of(c.path, c.tokens, c.n_ctx, {.float_activations = true, .kv_type = types[i]});
      CHECK(same_bits(whole, logits_of(c.path, c.tokens, c.n_ctx, {.float_activations = true, .kv_type = types[i], .threads = 2, .batch = 7})));
      const double kl = mean_kl(reference, logits_of(c.path, c.tokens, c.n_ctx, {.float_activations = true, .kv_type = types[i], .every_expert = true}), c.n_vocab());
      CHECK(kl <= 1.5 * measured[i]);
      CHECK(kl > (i == 0 ? 0.0 : 1.5 * measured[i - 1]));  // it is this type and no finer one; and this type in place of a finer one is caught
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
