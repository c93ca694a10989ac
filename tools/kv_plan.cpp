// The plan asks the layout that the allocator asks too, so it is what a run will take.
#include "kv_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/cpu.h"
#include "kv/layout.h"
#include "model/params.h"
#include "quern/error.h"
#include "report_text.h"

namespace quern::cli {
namespace {

KvLayout layout_for(const std::vector<KvLayerGeometry>& layers, KvType type, uint64_t n_ctx) {
  KvLayoutOptions options;
  options.k_type = options.v_type = type;
  options.n_ctx = n_ctx;
  options.max_chunk = std::min<size_t>(options.max_chunk, n_ctx);
  return KvLayout(layers, options);
}

/// The most tokens, up to n_most, whose rows fit into `available` bytes.
uint64_t most_tokens(const KvLayout& layout, uint64_t n_most, uint64_t available) {
  uint64_t low = 0, high = n_most;
  while (low < high) {
    const uint64_t middle = low + (high - low + 1) / 2;
    if (layout.committed_bytes(middle) <= available) low = middle;
    else high = middle - 1;
  }
  return low;
}

}  // namespace

KvPlan make_kv_plan(const gguf::Header& header, std::vector<uint64_t> contexts) {
  KvPlan plan;
  ModelParams params;
  try {
    params = read_params(header);
  } catch (const Error& error) {
    plan.unknown = error.what();
    return plan;
  }
  plan.n_layers = params.n_layers;
  plan.n_ctx_train = params.n_ctx_train;
  plan.available_bytes = available_memory_bytes();
  if (contexts.empty()) contexts = {4096, 32768, params.n_ctx_train};
  std::sort(contexts.begin(), contexts.end());
  contexts.erase(std::unique(contexts.begin(), contexts.end()), contexts.end());
  plan.contexts = contexts;
  std::vector<KvLayerGeometry> layers;
  for (const LayerParams& l : params.layers) {
    layers.push_back({l.n_kv_heads, l.k_dim, l.latent ? 0 : l.v_dim, l.window});
    if (l.latent) plan.expanded_bytes_per_token += 2ull * l.n_heads * (l.latent.nope_dim + l.latent.rope_dim + l.latent.v_dim);
    plan.n_windowed += l.window != 0;
  }
  for (const KvType type : all_kv_types()) {
    const KvLayout trained = layout_for(layers, type, params.n_ctx_train);
    KvPlanRow row{std::string(kv_type_name(type)), trained.bytes_per_token(), {}, most_tokens(trained, params.n_ctx_train, plan.available_bytes)};
    for (const uint64_t n_ctx : contexts) row.bytes.push_back(layout_for(layers, type, n_ctx).committed_bytes(n_ctx));
    plan.rows.push_back(std::move(row));
  }
  return plan;
}

std::string kv_plan_text(const KvPlan& plan) {
  if (!plan.unknown.empty()) return fmt::format("KV plan: none, because {}\n", plan.unknown);
  std::string out = fmt::format("KV plan ({} layers, {} of them windowed; trained for {} tokens; {} of memory free)\n", plan.n_layers, plan.n_windowed, with_commas(plan.n_ctx_train), bytes_text(plan.available_bytes));
  if (plan.expanded_bytes_per_token) out += fmt::format("  latent rows stand for the keys and values of all heads, which would take {} bytes/token in f16\n", with_commas(plan.expanded_bytes_per_token));
  out += fmt::format("  {:<6} {:>12}", "type", "bytes/token");
  for (const uint64_t n_ctx : plan.contexts) out += fmt::format(" {:>14}", fmt::format("-c {}", n_ctx));
  out += fmt::format(" {:>16}\n", "fits, tokens");
  for (const KvPlanRow& row : plan.rows) {
    out += fmt::format("  {:<6} {:>12}", row.type, with_commas(row.bytes_per_token));
    for (const uint64_t n : row.bytes) out += fmt::format(" {:>14}", bytes_text(n));
    out += fmt::format(" {:>16}\n", row.fits_tokens == plan.n_ctx_train ? "all" : with_commas(row.fits_tokens));
  }
  return out;
}

nlohmann::ordered_json kv_plan_json(const KvPlan& plan) {
  if (!plan.unknown.empty()) return {{"unknown", plan.unknown}};
  nlohmann::ordered_json types = nlohmann::ordered_json::object();
  for (const KvPlanRow& row : plan.rows) {
    types[row.type] = {{"bytes_per_token", row.bytes_per_token}, {"bytes", row.bytes}, {"fits_tokens", row.fits_tokens}};
  }
  return {{"layers", plan.n_layers}, {"windowed_layers", plan.n_windowed}, {"context_length", plan.n_ctx_train}, {"available_bytes", plan.available_bytes}, {"contexts", plan.contexts}, {"expanded_bytes_per_token", plan.expanded_bytes_per_token}, {"types", types}};
}

}  // namespace quern::cli
