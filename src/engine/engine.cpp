// Loading a model and handing out sessions.
#include <algorithm>

#include "base/check.h"
#include "base/cpu.h"
#include "engine/engine_impl.h"

namespace quern {

Engine::Impl::Impl(const std::string& path, const EngineOptions& engine_options)
    : options(engine_options),
      model(path, engine_options.mmap ? MappedFile::Mode::kMap : MappedFile::Mode::kRead, engine_options.pre),
      kernels(kernels::active_kernels()),
      n_threads(engine_options.threads > 0 ? engine_options.threads : usable_cores()) {
  const ModelParams& p = model.params;
  info.name = p.name;
  info.architecture = std::string(p.arch->name);
  info.path = path;
  info.n_layers = p.n_layers;
  info.n_embd = p.n_embd;
  info.n_vocab = p.n_vocab;
  info.n_ctx_train = p.n_ctx_train;
  info.file_bytes = model.file.total_bytes();
  info.warnings = model.warnings;
  info.has_chat_template = model.file.header().get_string("tokenizer.chat_template").has_value();
}

Engine::Engine() = default;
Engine::~Engine() = default;

std::shared_ptr<Engine> Engine::load(const std::string& path, const EngineOptions& options) {
  if (options.threads < 0 || options.threads > 1024) throw_error(ErrorKind::kUsage, "--threads is {}; allowed is 1 to 1024", options.threads);
  std::shared_ptr<Engine> engine(new Engine);
  engine->impl_ = std::make_unique<Impl>(path, options);
  return engine;
}

const ModelInfo& Engine::info() const { return impl_->info; }
int Engine::threads() const { return impl_->n_threads; }
const char* Engine::isa() const { return impl_->kernels.name; }
double Engine::load_ms() const { return impl_->model.load_ms; }

std::vector<TokenId> Engine::tokenize(std::string_view text, bool add_special, bool parse_special) const {
  return impl_->model.tokenizer->encode(text, {add_special, parse_special});
}
std::string Engine::piece(TokenId id) const { return impl_->model.tokenizer->piece(id, false); }
bool Engine::is_end(TokenId id) const { return impl_->model.tokenizer->is_end(id); }
TokenId Engine::bos() const { return impl_->model.tokenizer->add_bos() ? impl_->model.tokenizer->bos() : kNoToken; }

std::vector<KvLayerGeometry> kv_geometry(const ModelParams& params) {
  std::vector<KvLayerGeometry> layers;
  for (const LayerParams& l : params.layers) layers.push_back({l.n_kv_heads, l.k_dim, l.latent ? 0 : l.v_dim, l.window, l.n_heads});
  return layers;
}

KvLayoutOptions layout_options(const Engine::Impl& engine, const SessionOptions& options) {
  const auto type = [](const std::string& name) {
    const auto found = parse_kv_type(name);
    if (found) return *found;
    std::string names;
    for (const KvType t : all_kv_types()) names += (names.empty() ? "" : ", ") + std::string(kv_type_name(t));
    throw_error(ErrorKind::kUsage, "KV type '{}' is not known; allowed are {}", name, names);
  };
  KvLayoutOptions layout;
  layout.k_type = type(options.k_type);
  layout.v_type = type(options.v_type);
  layout.memory_limit_bytes = options.memory_limit_bytes;
  layout.policy = {options.kv_window, options.kv_sinks, options.kv_heavy};
  if (options.batch == 0 || options.batch > 65536) throw_error(ErrorKind::kUsage, "--batch is {}; allowed is 1 to 65536", options.batch);
  if (layout.policy.window > 0) {  // the sequence has no end: the context is what a query sees
    layout.n_ctx = size_t(options.kv_window) + options.kv_sinks;
    layout.max_chunk = options.batch;
  } else {
    layout.n_ctx = options.n_ctx ? options.n_ctx : engine.model.params.n_ctx_train;
    layout.max_chunk = std::min(options.batch, layout.n_ctx);
  }
  if (const size_t n_learned = engine.model.weights.position_embd.n_rows; n_learned) {
    if (layout.policy.window > 0) throw_error(ErrorKind::kUsage, "--kv-window makes the text endless, but this model knows {} positions by heart and no more; give -c {} or less instead", n_learned, n_learned);
    if (layout.n_ctx > n_learned) throw_error(ErrorKind::kUsage, "a context of {} was asked for, but this model knows {} positions by heart and no more; give -c {} or less", layout.n_ctx, n_learned, n_learned);
  }
  if (layout.policy.heavy > 0 && engine.model.params.layers[0].latent) {
    throw_error(ErrorKind::kUsage, "eviction by use is not made for latent attention, whose rows are keys and values in one; leave out --kv-evict");
  }
  if (layout.policy.heavy > 0 && !engine.model.params.alibi_slopes.empty()) {
    throw_error(ErrorKind::kUsage, "eviction by use moves tokens together, but this model tells distances by where they stand (ALiBi); leave out --kv-evict");
  }
  return layout;
}

KvReport Engine::plan(const SessionOptions& options, size_t n_tokens) const {
  const KvLayout layout(kv_geometry(impl_->model.params), layout_options(*impl_, options));
  return make_report(impl_->model.params, layout, n_tokens, layout.committed_bytes(n_tokens));
}

std::unique_ptr<Session> Engine::new_session(const SessionOptions& options) {
  const KvLayoutOptions layout = layout_options(*impl_, options);
  return std::unique_ptr<Session>(new Session(std::make_unique<Session::Impl>(shared_from_this(), options, layout)));
}

}  // namespace quern
