// Flags to engine and session options; contradictions are errors, never silently resolved.
#include "model_options.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <map>

#include "model_path.h"

namespace quern::cli {

void add_file_options(CLI::App& command, ModelOptions& o) {
  command.add_option("MODEL,-m,--model", o.model, "A GGUF file (the first part of a split set is enough) or a name of models/catalog.json");
  auto* map = command.add_flag("--mmap", o.mmap, "Map the file (the default)");
  command.add_flag("--no-mmap", o.no_mmap, "Read the file into memory instead of mapping it")->excludes(map);
  command.add_option("--act", o.act, "Activations in products with quantized weights: int8 (default) or f32 (slower, for checking accuracy)")->check(CLI::IsMember({"int8", "f32"}));
  command.add_option("--pre", o.pre, "Pre-tokenizer to use in place of the one the file names");
  command.add_flag("-q,--quiet", o.quiet, "Nothing on standard error but errors");
}

void add_model_options(CLI::App& command, ModelOptions& o) {
  add_file_options(command, o);
  command.add_option("-t,--threads", o.threads, "Threads (default: the physical cores this process may use)")->check(CLI::Range(1, 1024));
}

void add_cache_options(CLI::App& command, ModelOptions& o) {
  command.add_option("-c,--ctx", o.n_ctx, "Context in tokens")->check(CLI::Range(int64_t(1), int64_t(1) << 40));
  command.add_option("--batch", o.batch, "Most tokens of one prefill step (default 512)")->check(CLI::Range(1, 65536));
  auto* both = command.add_option("--kv-type", o.kv_type, "Element type of the KV cache: f32 f16 bf16 int8 (or q8_0) fp8 int4 (or q4_0); default f16")->check(kNotEmpty);
  command.add_option("--k-type", o.k_type, "Element type of the keys alone")->check(kNotEmpty)->excludes(both);
  command.add_option("--v-type", o.v_type, "Element type of the values alone")->check(kNotEmpty)->excludes(both);
  add_policy_options(command, o);
  command.add_option("--kv-memory-limit", o.memory_limit, "Most memory that the cache may take, as 512M or 1.5G (K, M, G are powers of 1024); a run that needs more stops and says so")->check(kNotEmpty);
}

void add_policy_options(CLI::App& command, ModelOptions& o) {
  auto* window = command.add_option("--kv-window", o.kv_window, "Keep the last N tokens (and the sinks) in the cache: text without end in memory that does not grow")->check(CLI::Range(int64_t(1), int64_t(1) << 30));
  command.add_option("--kv-sinks", o.kv_sinks, "With --kv-window: keep the first S tokens too (default 4), because attention leans on them")->needs(window)->check(CLI::Range(int64_t(0), int64_t(1) << 20));
  command.add_option("--kv-evict", o.kv_evict, "heavy:N keeps at most N tokens (in 256s, at least 512): the latest, and those that attention uses most")->check(kNotEmpty)->excludes(window);
}

void check_context(const ModelOptions& o, const SessionOptions& session, const Engine& engine) {
  if (o.kv_window && o.n_ctx) throw Error(ErrorKind::kUsage, fmt::format("-c {} bounds the sequence and --kv-window {} makes it endless; give one of them", o.n_ctx, o.kv_window));
  const size_t n_ctx = o.kv_window ? size_t(session.kv_window) + session.kv_sinks : session.n_ctx, trained = engine.info().n_ctx_train;
  if (n_ctx <= trained || o.quiet) return;
  const std::string option = o.kv_window ? fmt::format("--kv-window {} with {} sinks", session.kv_window, session.kv_sinks) : fmt::format("-c {}", n_ctx);
  fmt::print(stderr, "quern: warning: {} is beyond the {} tokens the model was trained for; expect worse answers past that\n", option, trained);
}

namespace {

uint32_t parse_evict(const std::string& text) {
  uint32_t n = 0;
  const char* const end = text.data() + text.size();
  if (text.starts_with("heavy:")) {
    const auto [stop, error] = std::from_chars(text.data() + 6, end, n);
    if (error == std::errc() && stop == end && is_heavy_budget(n)) return n;
  }
  throw Error(ErrorKind::kUsage, fmt::format("--kv-evict '{}' is no policy; give heavy:N, where N is the number of tokens to keep, 512 or a larger multiple of 256", text));
}

uint64_t parse_bytes(const std::string& option, const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  std::string unit = end;
  if (unit.ends_with("iB")) unit.resize(unit.size() - 2);
  const std::map<std::string, double> units = {{"", 1.0}, {"K", 0x1p10}, {"M", 0x1p20}, {"G", 0x1p30}, {"T", 0x1p40}};
  const auto found = units.find(unit);
  if (end == text.c_str() || found == units.end() || !(number * found->second >= 1.0 && number * found->second < 0x1p62)) {
    throw Error(ErrorKind::kUsage, fmt::format("{} '{}' is no size; give bytes, or a number with K, M, G or T, like 512M", option, text));
  }
  return uint64_t(number * found->second);
}

}  // namespace

std::shared_ptr<Engine> ModelOptions::load() const {
  EngineOptions options;
  options.threads = int(threads);
  options.mmap = !no_mmap;
  options.float_activations = act == "f32";
  options.pre = pre;
  auto engine = Engine::load(find_model(model), options);
  if (!quiet) {
    for (const std::string& warning : engine->info().warnings) fmt::print(stderr, "quern: warning: {}\n", warning);
  }
  return engine;
}

SessionOptions ModelOptions::session(size_t default_ctx) const {
  SessionOptions s;
  s.n_ctx = n_ctx ? size_t(n_ctx) : default_ctx;
  s.rope_ctx = size_t(n_ctx);
  s.batch = size_t(batch);
  if (!kv_type.empty()) s.k_type = s.v_type = kv_type;
  if (!k_type.empty()) s.k_type = k_type;
  if (!v_type.empty()) s.v_type = v_type;
  if (!memory_limit.empty()) s.memory_limit_bytes = parse_bytes("--kv-memory-limit", memory_limit);
  if (!kv_evict.empty()) s.kv_heavy = parse_evict(kv_evict);
  s.kv_window = uint32_t(kv_window);
  s.kv_sinks = kv_window ? uint32_t(kv_sinks) : 0;
  return s;
}

}  // namespace quern::cli
