// Every figure of the report once, in words a newcomer can follow.
#include "report_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace quern::cli {
namespace {

double per_second(size_t n, double ms) { return ms > 0 ? double(n) * 1000.0 / ms : 0.0; }

std::string percent_less(uint64_t now, uint64_t before) {
  return before == 0 ? "" : fmt::format(" ({:+.0f} %)", 100.0 * (double(now) / double(before) - 1.0));
}

constexpr size_t kBarWidth = 40;

/// What the committed memory holds: keys and values of full layers (K V) and of windowed ones (k v), and rows that are still free.
std::string share_bar(const KvReport& r) {
  uint64_t parts[4] = {};
  for (const KvLayerReport& l : r.per_layer) {
    parts[l.window ? 2 : 0] += l.k_bytes;
    parts[l.window ? 3 : 1] += l.v_bytes;
  }
  const uint64_t whole = std::max<uint64_t>(std::max(r.committed_bytes, r.used_bytes), 1);
  std::string bar, legend;
  uint64_t before = 0;
  for (size_t i = 0; i < 4; ++i) {
    const auto cell = [&](uint64_t bytes) { return size_t((bytes * kBarWidth + whole / 2) / whole); };
    bar.append(cell(before + parts[i]) - cell(before), "KVkv"[i]);
    before += parts[i];
    if (parts[i]) legend += fmt::format("{} {:.0f} %, ", "KVkv"[i], 100.0 * double(parts[i]) / double(whole));
  }
  bar.append(kBarWidth - bar.size(), '.');
  return fmt::format("[{}] {}free {:.0f} % of what is committed{}", bar, legend, 100.0 * double(whole - before) / double(whole), parts[2] ? "; k v: windowed layers" : "");
}

}  // namespace

std::string counted(size_t n, std::string_view noun) { return fmt::format("{} {}{}", with_commas(n), noun, n == 1 ? "" : "s"); }

std::string with_commas(uint64_t n) {
  std::string digits = fmt::format("{}", n);
  for (ptrdiff_t i = ptrdiff_t(digits.size()) - 3; i > 0; i -= 3) digits.insert(size_t(i), ",");
  return digits;
}

std::string bytes_text(uint64_t n) {
  if (n < 1024) return fmt::format("{} B", n);
  if (n < 1024 * 1024) return fmt::format("{:.1f} KiB", double(n) / 1024);
  if (n < 1024ull * 1024 * 1024) return fmt::format("{:.1f} MiB", double(n) / (1024 * 1024));
  return fmt::format("{:.2f} GiB", double(n) / (1024.0 * 1024 * 1024));
}

std::string context_text(size_t n_used, const Session& session) {
  return session.is_endless() ? fmt::format("{} so far, of which {} are seen", with_commas(n_used), with_commas(std::min(n_used, session.n_ctx()))) : fmt::format("{} of {}", with_commas(n_used), with_commas(session.n_ctx()));
}

std::string kv_report_text(const KvReport& r, const Timings& t, bool with_bar) {
  std::string out = "KV cache\n";
  const auto line = [&](std::string_view name, const std::string& value) { out += fmt::format("  {:<16} {}\n", name, value); };
  line("geometry", fmt::format("{} layers x {} KV heads ({} query heads) x head size {}", r.layers, r.kv_heads, r.query_heads, r.head_dim));
  if (r.latent_rank) line("latent rows", fmt::format("{} values, of which {} are the value too, stand for the keys and values of all {} heads", r.head_dim, r.latent_rank, r.query_heads));
  line("types", fmt::format("K {}, V {}; policy {}", r.k_type, r.v_type, r.policy));
  line("per token", fmt::format("{} bytes by 2*L*H_kv*D_h*bytes, {} stored", with_commas(r.bytes_per_token_formula), with_commas(r.bytes_per_token)));
  if (r.is_endless) line("tokens", fmt::format("{} so far; a query sees {} of them", with_commas(r.used_tokens), with_commas(std::min(r.used_tokens, r.context_tokens))));
  else line("tokens", fmt::format("{} of {} ({:.1f} %)", with_commas(r.used_tokens), with_commas(r.context_tokens), r.context_tokens ? 100.0 * double(r.used_tokens) / double(r.context_tokens) : 0.0));
  if (r.evicted_tokens > 0 && r.policy_bytes > 0) line("evicted", fmt::format("{} tokens by use, each KV head its own; {} to decide by", with_commas(r.evicted_tokens), bytes_text(r.policy_bytes)));
  else if (r.evicted_tokens > 0) line("evicted", fmt::format("{} tokens: positions {} to {}", with_commas(r.evicted_tokens), with_commas(r.first_evicted), with_commas(r.first_evicted + r.evicted_tokens - 1)));
  line("used", fmt::format("{} ({} bytes)", bytes_text(r.used_bytes), with_commas(r.used_bytes)));
  line("committed", fmt::format("{} in pieces of 256 tokens", bytes_text(r.committed_bytes)));
  if (with_bar) line("shares", share_bar(r));
  line("reserved", fmt::format("{} of address space, free until filled", bytes_text(r.reserved_bytes)));
  line("in f16", fmt::format("{}; stored{}", bytes_text(r.f16_bytes), percent_less(r.used_bytes, r.f16_bytes)));
  line("with full MHA", fmt::format("{} in f16; stored{}", bytes_text(r.mha_bytes), percent_less(r.used_bytes, r.mha_bytes)));
  if (!r.windowed_layers.empty()) {
    line("windows", fmt::format("{} full layers and {} with a window of {}; without windows {}{}", r.layers - r.windowed_layers.size(), r.windowed_layers.size(),
                                r.per_layer[r.windowed_layers[0]].window, bytes_text(r.no_window_bytes), percent_less(r.used_bytes, r.no_window_bytes)));
    line("windowed layers", fmt::format("{}", fmt::join(r.windowed_layers, " ")));
  }
  if (t.load_ms > 0) line("loading", fmt::format("{:.0f} ms, then {:.0f} ms to bring the weights into memory", t.load_ms, t.page_in_ms));
  const std::string reread = t.reread_tokens ? fmt::format(", {} known ones read again (the window had left their beginning behind)", with_commas(t.reread_tokens)) : "";
  line("prefill", fmt::format("{} tokens in {:.0f} ms ({:.1f} tokens/s); {} re-used from the cache{}", t.prefill_tokens, t.prefill_ms, per_second(t.prefill_tokens, t.prefill_ms), t.reused_tokens, reread));
  line("decode", fmt::format("{} tokens in {:.0f} ms ({:.1f} tokens/s)", t.decode_tokens, t.decode_ms, per_second(t.decode_tokens, t.decode_ms)));
  return out;
}

nlohmann::ordered_json kv_report_json(const KvReport& r, const Timings& t) {
  nlohmann::ordered_json layers = nlohmann::ordered_json::array();
  for (const KvLayerReport& l : r.per_layer) {
    layers.push_back({{"layer", l.layer}, {"kv_heads", l.kv_heads}, {"k_dim", l.k_dim}, {"v_dim", l.v_dim}, {"rows", l.rows}, {"window", l.window}, {"sinks", l.sinks}, {"k_bytes", l.k_bytes}, {"v_bytes", l.v_bytes}});
  }
  return {{"layers", r.layers},
          {"query_heads", r.query_heads},
          {"kv_heads", r.kv_heads},
          {"head_dim", r.head_dim},
          {"latent_rank", r.latent_rank},
          {"k_type", r.k_type},
          {"v_type", r.v_type},
          {"policy", r.policy},
          {"bytes_per_token_formula", r.bytes_per_token_formula},
          {"bytes_per_token", r.bytes_per_token},
          {"context_tokens", r.context_tokens},
          {"used_tokens", r.used_tokens},
          {"is_endless", r.is_endless},
          {"evicted_tokens", r.evicted_tokens},
          {"first_evicted", r.first_evicted},
          {"policy_bytes", r.policy_bytes},
          {"used_bytes", r.used_bytes},
          {"committed_bytes", r.committed_bytes},
          {"reserved_bytes", r.reserved_bytes},
          {"f16_bytes", r.f16_bytes},
          {"mha_bytes", r.mha_bytes},
          {"no_window_bytes", r.no_window_bytes},
          {"windowed_layers", r.windowed_layers},
          {"per_layer", layers},
          {"load_ms", t.load_ms},
          {"page_in_ms", t.page_in_ms},
          {"prefill_tokens", t.prefill_tokens},
          {"reused_tokens", t.reused_tokens},
          {"reread_tokens", t.reread_tokens},
          {"decode_tokens", t.decode_tokens},
          {"prefill_ms", t.prefill_ms},
          {"decode_ms", t.decode_ms}};
}

nlohmann::ordered_json timings_json(const Timings& t) {
  return {{"load_ms", t.load_ms},
          {"page_in_ms", t.page_in_ms},
          {"prefill_tokens", t.prefill_tokens},
          {"reused_tokens", t.reused_tokens},
          {"reread_tokens", t.reread_tokens},
          {"decode_tokens", t.decode_tokens},
          {"prefill_ms", t.prefill_ms},
          {"decode_ms", t.decode_ms},
          {"prefill_tokens_per_s", per_second(t.prefill_tokens, t.prefill_ms)},
          {"decode_tokens_per_s", per_second(t.decode_tokens, t.decode_ms)}};
}

}  // namespace quern::cli
