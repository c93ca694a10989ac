// What a run cost, as plain numbers: the KV report, and timings.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace quern {

/// One layer of the cache. Bytes are those really used by the rows it holds.
struct KvLayerReport {
  size_t layer = 0;
  uint32_t kv_heads = 0, k_dim = 0, v_dim = 0;
  size_t rows = 0;              ///< positions held
  uint32_t window = 0;          ///< tokens it looks back, the model's window or the user's; 0: all
  uint32_t sinks = 0;           ///< first tokens that it sees besides
  uint64_t k_bytes = 0, v_bytes = 0;
};

struct KvReport {
  size_t layers = 0;
  uint32_t query_heads = 0, kv_heads = 0, head_dim = 0;  ///< of the first layer
  uint32_t latent_rank = 0;              ///< the first so many values of a key are its value too (latent attention); 0: values are stored apart
  std::string k_type, v_type, policy;
  uint64_t bytes_per_token_formula = 0;  ///< 2·L·H_kv·D_h·bytes, elements only
  uint64_t bytes_per_token = 0;          ///< what one token really stores, scales included
  size_t context_tokens = 0, used_tokens = 0;
  bool is_endless = false;               ///< context_tokens are what a query sees; used_tokens grow without bound
  size_t evicted_tokens = 0;             ///< of the used tokens, those that the user's policy took out of the cache …
  size_t first_evicted = 0;              ///< … from this position on, where the policy is a window
  uint64_t policy_bytes = 0;             ///< what eviction by use needs besides the cache: watched queries, use and position of each row
  uint64_t used_bytes = 0;               ///< rows held
  uint64_t committed_bytes = 0;          ///< memory the cache has asked for, in whole pieces
  uint64_t reserved_bytes = 0;           ///< address space, costs nothing until filled
  uint64_t f16_bytes = 0;                ///< the rows held, were they f16
  uint64_t mha_bytes = 0;                ///< … and one KV head per query head, f16
  uint64_t no_window_bytes = 0;          ///< the rows of all layers, were there no windows
  std::vector<size_t> windowed_layers;    ///< those whose window is the model's own
  std::vector<KvLayerReport> per_layer;
};

struct Timings {
  double load_ms = 0;        ///< opening the file: table, vocabulary
  double page_in_ms = 0;     ///< bringing the weights into memory
  double prefill_ms = 0, decode_ms = 0;
  size_t prefill_tokens = 0; ///< computed
  size_t reused_tokens = 0;  ///< found in the cache
  size_t reread_tokens = 0;  ///< known, but computed again, because a window's ring had lost what goes before them
  size_t decode_tokens = 0;
};

}  // namespace quern
