// The KV report: sums over what the layout says, which is what the allocator was told.
#include <fmt/format.h>

#include <algorithm>

#include "engine/engine_impl.h"

namespace quern {

std::string policy_name(const KvPolicy& policy) {
  if (policy.heavy > 0) return fmt::format("heavy {}", policy.heavy);
  return policy.window > 0 ? fmt::format("window {}, sinks {}", policy.window, policy.sinks) : "full";
}

KvReport make_report(const ModelParams& params, const KvLayout& layout, size_t n_tokens, uint64_t committed_bytes) {
  KvReport report;
  const KvLayoutOptions& options = layout.options();
  report.layers = layout.n_layers();
  report.query_heads = params.layers[0].n_heads;
  report.kv_heads = params.layers[0].n_kv_heads;
  report.head_dim = params.layers[0].k_dim;
  report.latent_rank = params.layers[0].latent.kv_rank;
  report.k_type = kv_type_name(options.k_type);
  report.v_type = kv_type_name(options.v_type);
  const KvPolicy& policy = options.policy;
  report.policy = policy_name(policy);
  report.is_endless = policy.window > 0;
  report.bytes_per_token_formula = layout.bytes_per_token_formula();
  report.bytes_per_token = layout.bytes_per_token();
  report.context_tokens = options.n_ctx;
  report.used_tokens = n_tokens;
  report.committed_bytes = committed_bytes;
  report.reserved_bytes = layout.reserved_bytes();
  report.policy_bytes = layout.heavy_bytes();
  for (size_t i = 0; i < layout.n_layers(); ++i) {
    const KvLayerLayout& l = layout.layer(i);
    const KvLayerGeometry& g = l.geometry;
    const bool models_window = g.window > 0 && l.window == g.window;
    KvLayerReport layer;
    layer.layer = i;
    layer.kv_heads = g.n_kv_heads;
    layer.k_dim = g.k_dim;
    layer.v_dim = g.v_dim;
    layer.window = l.window;
    layer.sinks = l.sinks;
    layer.rows = l.held_tokens(n_tokens);
    layer.k_bytes = layer.rows * g.n_kv_heads * l.k_row_bytes + (n_tokens ? g.n_kv_heads * l.frame_bytes : 0);
    layer.v_bytes = layer.rows * g.n_kv_heads * l.v_row_bytes;
    const uint64_t f16_row = 2ull * (g.k_dim + g.v_dim);
    report.used_bytes += layer.k_bytes + layer.v_bytes;
    report.f16_bytes += layer.rows * g.n_kv_heads * f16_row;
    const LatentParams& latent = params.layers[i].latent;
    const uint64_t f16_head = latent ? 2ull * (latent.nope_dim + latent.rope_dim + latent.v_dim) : f16_row;
    report.mha_bytes += layer.rows * params.layers[i].n_heads * f16_head;
    report.no_window_bytes += (models_window ? n_tokens : layer.rows) * l.token_bytes();
    if (models_window) report.windowed_layers.push_back(i);
    else if (layer.rows < n_tokens) {
      report.evicted_tokens = n_tokens - layer.rows;
      report.first_evicted = l.sinks;
    }
    report.per_layer.push_back(layer);
  }
  return report;
}

}  // namespace quern
