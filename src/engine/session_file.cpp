// The format, and every reason to refuse a file. The checksum tells a damaged file from a whole one; the bounds-checked cursor takes
// care of those that somebody made.
#include "engine/session_file.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/atomic_file.h"
#include "base/checksum.h"
#include "base/cursor.h"
#include "base/rounding.h"
#include "kv/snapshot.h"

namespace quern {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "QUERNSES";
constexpr uint32_t kVersion = 2;
constexpr size_t kPage = 4096;
constexpr size_t kFixedBytes = 24;   // magic, version, bytes of the head, bytes of the file
constexpr size_t kSamples = 64;      // pages of a model file's tensor data that enter its fingerprint

/// The settings that a row's bits depend on, as a file states them.
struct Settings {
  uint64_t model = 0, rope = 0;
  std::string model_name, k_type, v_type, act;
  uint32_t window = 0, sinks = 0, heavy = 0, row_format = 0;
  uint64_t n_ctx = 0;
};

struct LayerPieces {
  uint32_t n_kv_heads = 0, k_dim = 0, v_dim = 0;
  uint64_t frames_bytes = 0;
  uint64_t piece_bytes = 0;
  KvCache::HeldPieces held;
};

struct Head {
  Settings settings;
  std::vector<TokenId> tokens;
  std::vector<float> logits;       ///< [n_vocab] after the last token, or none
  std::string extra;
  std::vector<LayerPieces> layers;
};

/// One field after the other; the same text writes and reads.
template <typename Io>
void fields(Io& io, Head& h) {
  Settings& s = h.settings;
  io.number(s.model, "model fingerprint");
  io.number(s.rope, "fingerprint of the positions' angles");
  io.number(s.row_format, "row format");
  io.bytes(s.model_name, "model name");
  io.bytes(s.k_type, "K type");
  io.bytes(s.v_type, "V type");
  io.bytes(s.act, "activation type");
  io.number(s.n_ctx, "context");
  io.number(s.window, "window");
  io.number(s.sinks, "sinks");
  io.number(s.heavy, "heavy hitters");
  io.array(h.tokens, "tokens");
  io.array(h.logits, "logits");
  io.bytes(h.extra, "text of the front end");
  uint64_t n_layers = h.layers.size();
  io.number(n_layers, "layers");
  io.resize(h.layers, n_layers, "layers");
  for (LayerPieces& l : h.layers) {
    io.number(l.n_kv_heads, "KV heads");
    io.number(l.k_dim, "key size");
    io.number(l.v_dim, "value size");
    io.number(l.frames_bytes, "bytes of the key frames");
    io.number(l.piece_bytes, "bytes of a piece");
    for (size_t* n : {&l.held.n_pinned, &l.held.first, &l.held.end}) io.number(*n, "pieces");
  }
}

struct Writer {
  std::string out;
  template <typename T>
  void number(const T& value, std::string_view) { out.append(reinterpret_cast<const char*>(&value), sizeof value); }
  void bytes(const std::string& text, std::string_view what) {
    number(uint64_t(text.size()), what);
    out += text;
  }
  template <typename T>
  void array(const std::vector<T>& values, std::string_view what) {
    number(uint64_t(values.size()), what);
    out.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  }
  template <typename T>
  void resize(const std::vector<T>&, uint64_t, std::string_view) {}
};

struct Reader {
  Cursor cursor;
  template <typename T>
  void number(T& value, std::string_view what) { value = cursor.read<T>(what); }
  void bytes(std::string& text, std::string_view what) {
    const auto got = cursor.take(cursor.read<uint64_t>(what), what);
    text.assign(reinterpret_cast<const char*>(got.data()), got.size());
  }
  template <typename T>
  void array(std::vector<T>& values, std::string_view what) {
    const auto got = cursor.take(checked_mul(cursor.read<uint64_t>(what), sizeof(T), what), what);
    values.resize(got.size() / sizeof(T));
    if (!got.empty()) std::memcpy(values.data(), got.data(), got.size());
  }
  template <typename T>
  void resize(std::vector<T>& values, uint64_t n, std::string_view what) {
    if (n > cursor.remaining()) throw_error(ErrorKind::kModel, "{}: {} of them do not fit into the file", what, n);
    values.resize(n);
  }
};

void add_padded(Checksum& sum, std::span<const std::byte> bytes) {
  const size_t whole = bytes.size() / Checksum::kUnitBytes * Checksum::kUnitBytes;
  sum.update(bytes.first(whole));
  std::byte rest[Checksum::kUnitBytes] = {};
  std::copy(bytes.begin() + ptrdiff_t(whole), bytes.end(), rest);
  sum.update(rest);
}

/// The model file without reading all of it: sizes, everything before the tensors, and pages spread over their data.
uint64_t model_fingerprint(const gguf::ModelFile& file) {
  Checksum sum;
  for (const MappedFile& part : file.parts()) {
    const std::span<const std::byte> bytes = part.bytes();
    size_t data = bytes.size();
    for (const gguf::TensorInfo& tensor : file.header().tensors) {
      if (tensor.data.data() >= bytes.data() && tensor.data.data() < bytes.data() + bytes.size()) data = std::min(data, size_t(tensor.data.data() - bytes.data()));
    }
    add_padded(sum, bytes.first(data));
    const size_t n_pages = (bytes.size() - data) / kPage;
    for (size_t i = 0; i < std::min(kSamples, n_pages); ++i) add_padded(sum, bytes.subspan(data + n_pages * i / std::min(kSamples, n_pages) * kPage, kPage));
    const uint64_t n_bytes = bytes.size();
    add_padded(sum, std::as_bytes(std::span(&n_bytes, 1)));
  }
  return sum.value();
}

uint64_t rope_fingerprint(const std::vector<RopeTable>& tables) {
  Checksum sum;
  for (const RopeTable& table : tables) {
    add_padded(sum, std::as_bytes(std::span(table.inv_freq)));
    add_padded(sum, std::as_bytes(std::span(&table.magnitude, 1)));
  }
  return sum.value();
}

Settings settings_of(const Session::Impl& session) {
  const Engine::Impl& e = session.engine_impl();
  const KvLayoutOptions& options = session.cache.layout().options();
  Settings s;
  s.model = model_fingerprint(e.model.file);
  s.rope = rope_fingerprint(session.ropes);
  s.model_name = e.info.name;
  s.k_type = kv_type_name(options.k_type);
  s.v_type = kv_type_name(options.v_type);
  s.act = e.options.float_activations ? "f32" : "int8";
  s.window = options.policy.window;
  s.sinks = options.policy.sinks;
  s.heavy = options.policy.heavy;
  s.row_format = kKvRowFormat;
  s.n_ctx = options.n_ctx;
  return s;
}

LayerPieces pieces_of(const KvCache& cache, size_t layer) {
  const KvLayerLayout& l = cache.layout().layer(layer);
  return {l.geometry.n_kv_heads, l.geometry.k_dim, l.geometry.v_dim, l.frames_bytes, l.piece_bytes, cache.held_pieces(layer)};
}

double ms_since(std::chrono::steady_clock::time_point start) { return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count(); }

/// Only a session file or nothing may be replaced: a wrong name must not cost the user another file.
void check_target(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return;
  if (!fs::is_regular_file(path, ignored)) throw_error(ErrorKind::kUsage, "'{}' is not a regular file; a session needs one of its own", path.string());
  if (fs::file_size(path, ignored) == 0) return;
  const MappedFile file(path);
  const size_t n = std::min(kMagic.size(), file.bytes().size());
  if (std::memcmp(file.bytes().data(), kMagic.data(), n) != 0) throw_error(ErrorKind::kUsage, "'{}' exists and is not a session file, so it is not replaced; choose another name", path.string());
}

/// A session file as it was found, whole: what is in it may still not fit the session.
class Found {
 public:
  explicit Found(const fs::path& path) : name_(path.string()) {
    std::error_code ignored;
    if (fs::exists(path, ignored) && !fs::is_regular_file(path, ignored)) throw_error(ErrorKind::kUsage, "session file '{}' is not a regular file", name_);
    try {
      file_ = MappedFile(path);
      check_whole();
      Reader reader{Cursor(bytes().first(head_bytes_))};
      reader.cursor.take(kFixedBytes, "head");
      fields(reader, head);
      check_sizes();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kModel) throw;
      throw Error(ErrorKind::kRuntime, fmt::format("session file '{}': {}", name_, error.what()));
    }
  }

  Head head;
  std::span<const std::byte> bytes() const { return file_.bytes(); }
  /// The first byte of the pieces.
  const std::byte* pieces() const { return bytes().data() + head_bytes_; }
  const std::string& name() const { return name_; }

 private:
  template <typename... Args>
  [[noreturn]] void damaged(fmt::format_string<Args...> format, Args&&... args) const {
    throw_error(ErrorKind::kRuntime, "session file '{}' {}; delete it or choose another name to start afresh", name_, fmt::format(format, std::forward<Args>(args)...));
  }

  void check_whole() {
    if (bytes().size() < kFixedBytes || std::memcmp(bytes().data(), kMagic.data(), kMagic.size()) != 0) throw_error(ErrorKind::kUsage, "'{}' is not a session file: it does not begin with {}", name_, kMagic);
    Cursor cursor(bytes().subspan(kMagic.size()));
    const uint32_t version = cursor.read<uint32_t>("version");
    if (version != kVersion) throw_error(ErrorKind::kUsage, "session file '{}' has format version {}; this quern reads version {}: delete it or choose another name to start afresh", name_, version, kVersion);
    head_bytes_ = cursor.read<uint32_t>("bytes of the head");
    const uint64_t n_bytes = cursor.read<uint64_t>("bytes of the file");
    if (n_bytes != bytes().size()) damaged("is damaged: it has {} bytes and should have {}", bytes().size(), n_bytes);
    if (n_bytes < sizeof(uint64_t) + kPage || head_bytes_ % kPage != 0 || head_bytes_ < kPage || head_bytes_ > n_bytes - sizeof(uint64_t) || (n_bytes - sizeof(uint64_t)) % kPage != 0) damaged("is damaged: its head cannot have {} bytes", head_bytes_);
    Checksum sum;
    sum.update(bytes().first(n_bytes - sizeof(uint64_t)));
    uint64_t stored;
    std::memcpy(&stored, bytes().data() + n_bytes - sizeof stored, sizeof stored);
    if (stored != sum.value()) damaged("is damaged: its checksum is {:016x} and should be {:016x}", sum.value(), stored);
  }

  /// The pieces that the head speaks of are there, and are those of its tokens.
  void check_sizes() {
    uint64_t wanted = 0;
    const size_t end = (head.tokens.size() + kPiecePositions - 1) / kPiecePositions;
    for (const LayerPieces& l : head.layers) {
      if (l.held.end != end || l.held.n_pinned > l.held.first || l.held.first > end || l.piece_bytes % kPage != 0 || l.frames_bytes % kPage != 0) damaged("is damaged: it has pieces {} to {} of {}", l.held.first, l.held.end, end);
      wanted = checked_add(wanted, checked_mul(l.held.count(), l.piece_bytes, "pieces"), "pieces");
      if (end > 0) wanted = checked_add(wanted, l.frames_bytes, "key frames");
    }
    const uint64_t there = bytes().size() - sizeof(uint64_t) - head_bytes_;
    if (wanted != there) damaged("is damaged: its pieces have {} bytes and should have {}", there, wanted);
  }

  std::string name_;
  MappedFile file_;
  size_t head_bytes_ = 0;
};

/// The format has no place for what the next decision looks at.
void refuse_heavy(const Session::Impl& session) {
  if (session.cache.layout().options().policy.heavy > 0) throw_error(ErrorKind::kUsage, "a session file cannot hold a cache that evicts by use; leave out --kv-evict or the session file");
}

/// Refuses a file of another model or other settings, naming what was found and what is wanted.
void check_fit(const Found& found, const Session::Impl& session) {
  const Settings &theirs = found.head.settings, ours = settings_of(session);
  const auto refuse = [&](std::string_view what, const auto& there, const auto& here, std::string_view advice) {
    throw_error(ErrorKind::kUsage, "session file '{}' was saved with {} {}, but this run has {}: {}, or choose another file", found.name(), what, there, here, advice);
  };
  if (theirs.model != ours.model) {
    refuse("the model", fmt::format("'{}' (fingerprint {:016x})", theirs.model_name, theirs.model), fmt::format("'{}' ({:016x})", ours.model_name, ours.model), "give that very model file");
  }
  if (theirs.row_format != ours.row_format) refuse("cache rows of format", theirs.row_format, ours.row_format, "delete it");
  const std::string types = theirs.k_type == theirs.v_type ? "give --kv-type " + theirs.k_type : fmt::format("give --k-type {} --v-type {}", theirs.k_type, theirs.v_type);
  if (theirs.k_type != ours.k_type) refuse("K type", theirs.k_type, ours.k_type, types);
  if (theirs.v_type != ours.v_type) refuse("V type", theirs.v_type, ours.v_type, types);
  if (theirs.act != ours.act) refuse("activations", theirs.act, ours.act, "give --act " + theirs.act);
  if (theirs.window != ours.window) refuse("a cache window of", theirs.window, ours.window, theirs.window ? fmt::format("give --kv-window {}", theirs.window) : "leave out --kv-window (and --on-full window)");
  if (theirs.sinks != ours.sinks) refuse("sink tokens:", theirs.sinks, ours.sinks, "give that --kv-sinks");
  if (theirs.heavy != ours.heavy) refuse("heavy hitters:", theirs.heavy, ours.heavy, "give that --kv-evict heavy:N");
  if (theirs.rope != ours.rope) refuse("a context of", theirs.n_ctx, ours.n_ctx, "this model turns positions by the context's size, so give the same -c");
  const size_t n_tokens = found.head.tokens.size(), n_ctx = session.cache.layout().options().n_ctx;
  if (n_tokens > n_ctx && !session.is_endless()) refuse("tokens:", n_tokens, fmt::format("a context of {}", n_ctx), fmt::format("give -c {} or more", n_tokens));
  for (size_t i = 0; i < std::max(found.head.layers.size(), session.cache.layout().n_layers()); ++i) {
    if (i >= found.head.layers.size() || i >= session.cache.layout().n_layers()) refuse("layers:", found.head.layers.size(), session.cache.layout().n_layers(), "delete it");
    const LayerPieces theirs_l = found.head.layers[i], ours_l = pieces_of(session.cache, i);
    if (theirs_l.n_kv_heads != ours_l.n_kv_heads || theirs_l.k_dim != ours_l.k_dim || theirs_l.v_dim != ours_l.v_dim || theirs_l.piece_bytes != ours_l.piece_bytes || theirs_l.frames_bytes != ours_l.frames_bytes) {
      refuse(fmt::format("pieces of layer {} of", i), fmt::format("{} bytes", theirs_l.piece_bytes), ours_l.piece_bytes, "delete it");
    }
  }
}

}  // namespace

SavedSession save_session(const Session::Impl& session, const fs::path& path, std::string_view extra) {
  refuse_heavy(session);
  const auto start = std::chrono::steady_clock::now();
  check_target(path);
  Head head{settings_of(session), session.tokens, {}, std::string(extra), {}};
  if (session.logits_at == session.tokens.size() && session.logits_at > 0) head.logits.assign(session.logits.data(), session.logits.data() + session.logits.size());
  uint64_t piece_bytes = 0;
  for (size_t i = 0; i < session.cache.layout().n_layers(); ++i) {
    head.layers.push_back(pieces_of(session.cache, i));
    piece_bytes += head.layers.back().held.count() * head.layers.back().piece_bytes;
    if (head.layers.back().held.end > 0) piece_bytes += head.layers.back().frames_bytes;
  }
  Writer writer;
  writer.out.assign(kFixedBytes, '\0');
  fields(writer, head);
  writer.out.resize(round_up(writer.out.size(), kPage));
  if (writer.out.size() > UINT32_MAX) throw_error(ErrorKind::kRuntime, "a session file's head of {} bytes is too large", writer.out.size());
  Writer fixed;
  fixed.out = kMagic;
  fixed.number(kVersion, "");
  fixed.number(uint32_t(writer.out.size()), "");
  fixed.number(uint64_t(writer.out.size() + piece_bytes + sizeof(uint64_t)), "");
  writer.out.replace(0, kFixedBytes, fixed.out);

  AtomicFile file(path);
  Checksum sum;
  const auto put = [&](std::span<const std::byte> bytes) {
    sum.update(bytes);
    file.write(bytes);
  };
  put(std::as_bytes(std::span(writer.out)));
  for (size_t layer = 0; layer < head.layers.size(); ++layer) {
    if (head.layers[layer].held.end > 0) {
      std::vector<std::byte> frames(head.layers[layer].frames_bytes);
      export_frames(session.cache, layer, frames.data());
      put(frames);
    }
    std::vector<std::byte> piece(head.layers[layer].piece_bytes);
    for (size_t i = 0; i < head.layers[layer].held.count(); ++i) {
      export_piece(session.cache, layer, head.layers[layer].held[i], piece.data());
      put(piece);
    }
  }
  const uint64_t value = sum.value();
  file.write(std::as_bytes(std::span(&value, 1)));
  file.commit();
  return {session.tokens.size(), file.n_bytes(), ms_since(start)};
}

RestoredSession restore_session(Session::Impl& session, const fs::path& path) {
  refuse_heavy(session);
  const auto start = std::chrono::steady_clock::now();
  Found found(path);
  check_fit(found, session);
  const Head& head = found.head;
  for (const TokenId id : head.tokens) {
    if (id < 0 || size_t(id) >= session.logits.size()) throw_error(ErrorKind::kRuntime, "session file '{}' holds token {}; the vocabulary has 0 to {}", found.name(), id, session.logits.size() - 1);
  }
  session.forget();
  std::vector<size_t> first;
  for (const LayerPieces& l : head.layers) first.push_back(l.held.first);
  session.cache.restore(head.tokens.size(), first);
  const std::byte* from = found.pieces();
  for (size_t layer = 0; layer < head.layers.size(); ++layer) {
    const KvCache::HeldPieces held = session.cache.held_pieces(layer);
    if (held.end > 0) {
      std::memcpy(session.cache.frames(layer), from, head.layers[layer].frames_bytes);
      from += head.layers[layer].frames_bytes;
    }
    for (size_t i = 0; i < head.layers[layer].held.count(); ++i, from += head.layers[layer].piece_bytes) {
      const size_t piece = head.layers[layer].held[i];
      // A ring that is smaller than the saver's has no place for the oldest pieces.
      if (piece < held.n_pinned || piece >= held.first) std::memcpy(session.cache.piece(layer, piece), from, head.layers[layer].piece_bytes);
    }
  }
  session.tokens = head.tokens;
  if (head.logits.size() == session.logits.size()) {
    std::copy(head.logits.begin(), head.logits.end(), session.logits.data());
    session.logits_at = session.tokens.size();
  }
  return {std::move(found.head.extra), session.tokens.size(), found.bytes().size(), ms_since(start)};
}

}  // namespace quern
