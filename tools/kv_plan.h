// What a model's KV cache would cost, before anything runs: for each element type, per token and for given contexts.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gguf/gguf.h"

namespace quern::cli {

struct KvPlanRow {
  std::string type;
  uint64_t bytes_per_token = 0;
  std::vector<uint64_t> bytes;      ///< for each context, filled; whole pieces of 256 tokens, windows counted as rings
  uint64_t fits_tokens = 0;         ///< the longest context that the free memory holds, at most the model's
};

struct KvPlan {
  std::string unknown;              ///< why there is no plan (an unsupported architecture, say), or empty
  size_t n_layers = 0, n_windowed = 0;
  uint64_t n_ctx_train = 0, available_bytes = 0;
  uint64_t expanded_bytes_per_token = 0;  ///< of latent attention: keys and values of all heads in f16; 0: the model has none
  std::vector<uint64_t> contexts;
  std::vector<KvPlanRow> rows;
};

/// `contexts` empty: 4096, 32768 and the model's own.
KvPlan make_kv_plan(const gguf::Header& header, std::vector<uint64_t> contexts);
std::string kv_plan_text(const KvPlan& plan);
nlohmann::ordered_json kv_plan_json(const KvPlan& plan);

}  // namespace quern::cli
