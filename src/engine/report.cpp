// The KV report: sums over what the layout says, which is what the allocator was told.
#include <algorithm>

#include "engine/engine_impl.h"

namespace quern {

KvReport make_report(const ModelParams& params, const KvLayout& layout, size_t n_tokens, uint64_t committed_bytes) {
  KvReport report;
  const KvLayoutOptions& options = layout.options();
  report.layers = layout.n_layers();
  report.query_heads = params.layers[0].n_heads;
  report.kv_heads = params.layers[0].n_kv_heads;
  report.head_dim = params.layers[0].k_dim;
  report.k_type = kv_type_name(options.k_type);
  report.v_type = kv_type_name(options.v_type);
  report.policy = "full";
  report.bytes_per_token_formula = layout.bytes_per_token_formula();
  report.bytes_per_token = layout.bytes_per_token();
  report.context_tokens = options.n_ctx;
  report.used_tokens = n_tokens;
  report.committed_bytes = committed_bytes;
  report.reserved_bytes = layout.reserved_bytes();
  for (size_t i = 0; i < layout.n_layers(); ++i) {
    const KvLayerGeometry& g = layout.layer(i).geometry;
    KvLayerReport layer;
    layer.layer = i;
    layer.kv_heads = g.n_kv_heads;
    layer.k_dim = g.k_dim;
    layer.v_dim = g.v_dim;
    layer.window = g.window;
    layer.rows = g.window ? std::min<size_t>(n_tokens, g.window) : n_tokens;
    layer.k_bytes = layer.rows * g.n_kv_heads * kv_row_size(options.k_type, g.k_dim).bytes();
    layer.v_bytes = layer.rows * g.n_kv_heads * kv_row_size(options.v_type, g.v_dim).bytes();
    const uint64_t f16_row = 2ull * (g.k_dim + g.v_dim);
    report.used_bytes += layer.k_bytes + layer.v_bytes;
    report.f16_bytes += layer.rows * g.n_kv_heads * f16_row;
    report.mha_bytes += layer.rows * params.layers[i].n_heads * f16_row;
    report.no_window_bytes += n_tokens * g.n_kv_heads * (kv_row_size(options.k_type, g.k_dim).bytes() + kv_row_size(options.v_type, g.v_dim).bytes());
    if (g.window) report.windowed_layers.push_back(i);
    report.per_layer.push_back(layer);
  }
  return report;
}

}  // namespace quern
