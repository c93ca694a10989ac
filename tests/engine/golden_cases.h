// The tiny models with reference logits, and how to compute and compare: for the tests of the engine.
#pragma once
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/engine_impl.h"

namespace quern::test {

namespace fs = std::filesystem;

struct Case {
  std::string name, path, weights;
  const ArchSpec* arch = nullptr;
  std::vector<TokenId> tokens;
  std::vector<float> reference;
  size_t n_ctx = 0;
  double logit_std = 1, kl_bar = 0;
  /// Of |logit − reference| / logit_std: the reference looks GELU up in a half-precision table.
  double tolerance() const { return arch->activation == Activation::kGelu ? 1e-2 : 1e-3; }
  size_t n_vocab() const { return reference.size() / tokens.size(); }
};

/// Cases lie in golden/tiny; those of tools/dev/tiny_archs.py have their logits in the source and their models made by the build.
inline Case load_described(const fs::path& described) {
  const std::string name = described.stem().string();
  const fs::path folder = described.parent_path();
  std::ifstream in(described);
  const auto json = nlohmann::json::parse(in);
  Case c;
  c.name = name;
  c.weights = json["weights"];
  c.path = (fs::path(QUERN_GOLDEN) / folder.filename() / json["model"].get<std::string>()).string();
  c.tokens = json["tokens"].get<std::vector<TokenId>>();
  c.n_ctx = json["n_ctx"];
  c.logit_std = json["logit_std"];
  c.kl_bar = 2 * json.value("llamacpp_default_kl_mean", 0.0);
  c.arch = find_arch(json["arch"].get<std::string>());
  INFO(name << " is of an architecture without a row");
  REQUIRE(c.arch);
  std::ifstream logits(folder / json["logits"].get<std::string>(), std::ios::binary);
  c.reference.resize(json["logits_shape"][0].get<size_t>() * json["logits_shape"][1].get<size_t>());
  logits.read(reinterpret_cast<char*>(c.reference.data()), std::streamsize(c.reference.size() * sizeof(float)));
  REQUIRE(logits);
  return c;
}

inline Case load_case(const std::string& name) { return load_described(fs::path(QUERN_GOLDEN) / "tiny" / (name + ".json")); }

struct Settings {
  bool float_activations = false;
  std::string kv_type = "f16";
  int threads = 1;
  size_t batch = 512;
  bool mmap = true;
  bool every_expert = false;   ///< all experts of all groups, so that there is no choice which a small change could turn
};

inline std::vector<float> logits_of(const std::string& path, const std::vector<TokenId>& tokens, size_t n_ctx, const Settings& s) {
  const auto engine = Engine::load(path, {.threads = s.threads, .mmap = s.mmap, .float_activations = s.float_activations, .pre = {}});
  if (s.every_expert) {
    ModelParams& params = engine->impl().model.params;
    for (LayerParams& layer : params.layers) layer.n_experts_used = layer.n_experts;
    params.router.n_groups_used = params.router.n_groups;
  }
  SessionOptions options;
  options.n_ctx = options.rope_ctx = n_ctx;
  options.k_type = options.v_type = s.kv_type;
  options.batch = s.batch;
  return engine->new_session(options)->all_logits(tokens);
}

inline double worst_error(const std::vector<float>& got, const std::vector<float>& want) {
  double worst = 0;
  for (size_t i = 0; i < want.size(); ++i) worst = std::max(worst, std::fabs(double(got[i]) - want[i]));
  return worst;
}

/// Mean KL divergence over positions, from the reference's distribution to ours.
inline double mean_kl(const std::vector<float>& reference, const std::vector<float>& got, size_t n_vocab) {
  const auto log_softmax = [&](const float* row) {
    double max = row[0], sum = 0;
    for (size_t i = 0; i < n_vocab; ++i) max = std::max(max, double(row[i]));
    for (size_t i = 0; i < n_vocab; ++i) sum += std::exp(row[i] - max);
    std::vector<double> out(n_vocab);
    for (size_t i = 0; i < n_vocab; ++i) out[i] = row[i] - max - std::log(sum);
    return out;
  };
  double total = 0;
  for (size_t at = 0; at < reference.size(); at += n_vocab) {
    const auto p = log_softmax(reference.data() + at), q = log_softmax(got.data() + at);
    for (size_t i = 0; i < n_vocab; ++i) total += std::exp(p[i]) * (p[i] - q[i]);
  }
  return total / double(reference.size() / n_vocab);
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) { return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0; }

/// All tiny models with reference logits.
inline std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const fs::path& folder : {fs::path(QUERN_GOLDEN) / "tiny", fs::path(QUERN_SOURCE) / "tests/golden/archs"}) {
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.path().extension() == ".json") cases.push_back(load_described(entry.path()));
    }
  }
  std::sort(cases.begin(), cases.end(), [](const Case& a, const Case& b) { return a.name < b.name; });
  REQUIRE(cases.size() > 30);
  return cases;
}

/// A case of every architecture and variant (those in F32), and some quantized ones.
inline std::vector<Case> one_of_each() {
  std::vector<Case> cases = all_cases();
  std::erase_if(cases, [](const Case& c) { return c.weights != "F32" && c.weights != "Q4_1" && c.weights != "Q4_K" && c.weights != "MXFP4"; });
  return cases;
}

}  // namespace quern::test
