// Files with experts that contradict themselves: each gives one message that names what, the value found and what is allowed.
#include <catch2/catch.hpp>
#include <filesystem>
#include <functional>
#include <string>

#include "gguf/model_file.h"
#include "model/params.h"
#include "model/weights.h"
#include "quern/error.h"

using namespace quern;

namespace {

using Change = std::function<void(gguf::Header&)>;

Change key(std::string name, uint64_t value) {
  return [=](gguf::Header& h) {
    const auto at = h.index.find(name);
    REQUIRE(at != h.index.end());
    h.metadata[at->second].second = {gguf::ValueType::U32, value};
  };
}
Change real(std::string name, double value) {
  return [=](gguf::Header& h) { h.metadata[h.index.at(name)].second = {gguf::ValueType::F32, value}; };
}
Change no_key(std::string name) {
  return [=](gguf::Header& h) { REQUIRE(h.index.erase(name) == 1); };
}
Change no_tensor(std::string name) {
  return [=](gguf::Header& h) { REQUIRE(h.tensor_index.erase(name) == 1); };
}
Change shape(std::string name, std::vector<uint64_t> dims) {
  return [=](gguf::Header& h) { h.tensors[h.tensor_index.at(name)].dims = dims; };
}

/// What loading says about a reference model with one change; empty when it loads.
std::string message(const std::string& model, const Change& change) {
  const gguf::ModelFile file(std::filesystem::path(QUERN_GOLDEN) / "tiny" / (model + ".gguf"));
  gguf::Header header = file.header();
  change(header);
  try {
    load_weights(header, read_params(header));
  } catch (const Error& error) {
    CHECK(error.exit_status() == 3);
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("files whose experts do not fit together are refused by name") {
  const struct {
    std::string model;
    Change change;
    std::vector<std::string> parts;
  } cases[] = {
      {"llama-mixtral", key("llama.expert_count", 0), {"llama.expert_count is 0", "1 to"}},
      {"llama-mixtral", no_key("llama.expert_count"), {"llama.expert_count is missing"}},
      {"llama-mixtral", no_key("llama.expert_used_count"), {"llama.expert_used_count is missing"}},
      {"llama-mixtral", key("llama.expert_used_count", 0), {"llama.expert_used_count is 0", "1 to 4"}},
      {"llama-mixtral", key("llama.expert_used_count", 5), {"llama.expert_used_count is 5", "1 to 4"}},
      {"llama-mixtral", key("llama.expert_count", 8), {"blk.0.ffn_gate_inp.weight", "[64, 4]", "[64, 8]"}},
      {"llama-mixtral", key("llama.expert_count", 1u << 31), {"llama.expert_count is 2147483648", "1 to 65536"}},
      {"llama-mixtral", no_tensor("blk.1.ffn_gate_inp.weight"), {"blk.1.ffn_up.weight is missing"}},
      {"llama-mixtral", no_tensor("blk.1.ffn_up_exps.weight"), {"blk.1.ffn_up_exps.weight is missing"}},
      {"llama-mixtral", shape("blk.0.ffn_down_exps.weight", {64, 64, 3}), {"blk.0.ffn_down_exps.weight", "[64, 64, 3]", "[64, 64, 4]"}},
      {"llama-mixtral", shape("blk.0.ffn_gate_exps.weight", {64, 256}), {"blk.0.ffn_gate_exps.weight", "[64, 256]", "[64, 64, 4]"}},
      {"qwen3moe", key("qwen3moe.expert_feed_forward_length", 31), {"ffn_gate_exps.weight", "[64, 32, 8]", "[64, 31, 8]"}},
      {"qwen2moe", shape("blk.0.ffn_gate_inp_shexp.weight", {63}), {"blk.0.ffn_gate_inp_shexp.weight", "[63]", "[64]"}},
      {"qwen2moe", no_tensor("blk.0.ffn_down_shexp.weight"), {"blk.0.ffn_down_shexp.weight is missing"}},
      {"gpt-oss", shape("blk.0.ffn_up_exps.bias", {32, 3}), {"blk.0.ffn_up_exps.bias", "[32, 3]", "[32, 4]"}},
      {"gpt-oss", shape("blk.0.attn_sinks.weight", {3}), {"blk.0.attn_sinks.weight", "[3]", "[4]"}},
      {"deepseek2", key("deepseek2.expert_gating_func", 9), {"deepseek2.expert_gating_func is 9", "2 (sigmoid)"}},
      {"deepseek2", key("deepseek2.expert_group_count", 3), {"deepseek2.expert_group_count is 3", "8 experts"}},
      {"deepseek2", key("deepseek2.expert_group_used_count", 5), {"deepseek2.expert_group_used_count is 5", "1 to 4"}},
      {"deepseek2", key("deepseek2.expert_group_used_count", 1), {"deepseek2.expert_used_count is 3", "1 groups", "2 experts"}},
      {"deepseek2", real("deepseek2.expert_weights_scale", __builtin_inf()), {"deepseek2.expert_weights_scale", "finite"}},
      {"deepseek2", shape("blk.1.exp_probs_b.bias", {7}), {"blk.1.exp_probs_b.bias", "[7]", "[8]"}},
      {"deepseek2", key("deepseek2.attention.kv_lora_rank", 25), {"attn_kv_a_mqa.weight", "[64, 32]", "[64, 33]"}},
      {"deepseek2", key("deepseek2.attention.key_length_mla", 8), {"a key of 8", "8 rotated"}},
      {"deepseek2", no_tensor("blk.0.attn_v_b.weight"), {"blk.0.attn_v_b.weight is missing"}},
      {"deepseek2", shape("blk.2.attn_k_b.weight", {24, 16, 4}), {"blk.2.attn_k_b.weight", "[24, 16, 4]", "[16, 24, 4]"}},
      {"deepseek2-kvb", shape("blk.0.attn_kv_b.weight", {24, 127}), {"blk.0.attn_kv_b.weight", "[24, 127]", "[24, 128]"}},
      {"deepseek2-kvb", no_tensor("blk.0.attn_q_a_norm.weight"), {"blk.0.attn_q_a_norm.weight is missing"}},
  };
  for (const auto& c : cases) {
    const std::string text = message(c.model, c.change);
    INFO(c.model << ": " << text);
    CHECK(!text.empty());
    for (const std::string& part : c.parts) {
      INFO("wanted: " << part);
      CHECK(text.find(part) != std::string::npos);
    }
  }
}

TEST_CASE("the same files load when nothing is changed, and with keys left out that have a default") {
  for (const char* model : {"llama-mixtral", "qwen2moe", "qwen3moe", "gpt-oss", "gpt-oss-mxfp4", "deepseek2", "deepseek2-kvb"}) CHECK(message(model, [](gguf::Header&) {}) == "");
  CHECK(message("deepseek2", key("deepseek2.expert_gating_func", 0)) == "");
  CHECK(message("deepseek2", no_key("deepseek2.expert_group_count")) != "");  // 2 groups used of one
}
