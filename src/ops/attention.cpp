// How attention is cut into work. Two ways, with the same bits: tiles of query rows that walk their pieces and merge as they go
// (prefill, batches), or one piece at a time into a table of partial results that is merged afterwards (a few tokens, so that
// all threads are busy at any depth). Why a query sees one span or two is the cache's business.
#include "ops/attention.h"

#include <algorithm>
#include <cstring>

#include "base/rounding.h"

namespace quern::ops {
namespace {

using kernels::AttendPiece;

constexpr size_t kTileRows = 64;        // query rows that share a pass over K and V
constexpr size_t kStoreGroup = 16;      // positions stored together: one K tile, so that two workers never write the same line
constexpr size_t kUnitsPerWorker = 4;   // fewer units than this a worker are cut by pieces instead

/// Hands out 64-byte aligned parts of the workspace, or only counts them.
class Carver {
 public:
  explicit Carver(std::byte* base) : base_(base) {}
  template <typename T>
  T* take(size_t n) {
    std::byte* p = base_ ? base_ + used_ : nullptr;
    used_ += round_up(n * sizeof(T), 64);
    return reinterpret_cast<T*>(p);
  }
  size_t used() const { return used_; }

 private:
  std::byte* base_;
  size_t used_ = 0;
};

struct Shape {
  size_t n_heads, n_kv_heads, k_dim, v_dim;
  size_t group() const { return n_heads / n_kv_heads; }
  size_t o_stride() const { return round_up(v_dim, 16); }
  size_t tile_rows() const { return std::max(kTileRows, group()); }
};

/// Partial results of some query rows.
struct Rows {
  float* m;
  float* l;
  float* o;
  Rows from(size_t row, size_t o_stride) const { return {m + row, l + row, o + row * o_stride}; }
};

Rows take_rows(Carver& carver, size_t n, size_t o_stride) { return {carver.take<float>(n), carver.take<float>(n), carver.take<float>(n * o_stride)}; }

/// What one worker needs for itself.
struct WorkerScratch {
  Rows running{}, partial{};
  uint16_t* begin = nullptr;
  uint16_t* end = nullptr;
  float* slopes = nullptr;
  float* distances = nullptr;
  float* rotated = nullptr;
  float* angles = nullptr;
  float* zeros = nullptr;
  std::byte* attend = nullptr;

  WorkerScratch() = default;
  WorkerScratch(Carver& carver, const Shape& s)
      : running(take_rows(carver, s.tile_rows(), s.o_stride())),
        partial(take_rows(carver, s.tile_rows(), s.o_stride())),
        begin(carver.take<uint16_t>(s.tile_rows())),
        end(carver.take<uint16_t>(s.tile_rows())),
        slopes(carver.take<float>(s.tile_rows())),
        distances(carver.take<float>(s.tile_rows())),
        rotated(carver.take<float>(s.k_dim)),
        angles(carver.take<float>(s.k_dim)),
        zeros(carver.take<float>(s.v_dim)),
        attend(carver.take<std::byte>(kernels::attend_scratch_bytes(s.tile_rows(), s.k_dim, s.v_dim))) {}
};

/// Tokens of a tile: as many as fill the rows, fewer where the workers would have too little to share.
size_t choose_tile_tokens(std::span<const AttentionSegment> segments, const Shape& shape, size_t n_workers) {
  for (size_t tokens = std::max<size_t>(1, shape.tile_rows() / shape.group());; tokens /= 2) {
    size_t units = 0;
    for (const AttentionSegment& s : segments) units += ceil_div(s.n_tokens, tokens) * shape.n_kv_heads;
    if (tokens == 1 || units >= kUnitsPerWorker * n_workers) return tokens;
  }
}

/// One step's attention of one layer. Every worker builds the same one.
class Step {
 public:
  Step(const Worker& worker, const AttentionArgs& args)
      : a_(args), shape_{args.n_heads, args.n_kv_heads, args.k_dim, args.v_dim}, kernels_(*args.kernels->attention) {
    const KvLayoutOptions& options = args.segments[0].cache->layout().options();
    k_type_ = options.k_type;
    values_in_keys_ = args.segments[0].cache->layout().layer(args.layer).geometry.v_dim == 0;
    v_type_ = values_in_keys_ ? k_type_ : options.v_type;
    is_framed_ = args.segments[0].cache->layout().layer(a_.layer).frame_bytes > 0;
    query_bytes_ = kernels::query_bytes(k_type_, a_.k_dim);
    const size_t n_workers = size_t(worker.count());
    tile_tokens_ = choose_tile_tokens(a_.segments, shape_, n_workers);
    for (const AttentionSegment& s : a_.segments) {
      n_rows_ = std::max(n_rows_, s.row + s.n_tokens);
      n_tiles_ += ceil_div(s.n_tokens, tile_tokens_);
      most_entries_ = std::max(most_entries_, most_pieces_seen(s.cache->layout().layer(a_.layer), s.first_pos + s.n_tokens));
    }
    by_pieces_ = tile_tokens_ == 1 && n_tiles_ * shape_.n_kv_heads < kUnitsPerWorker * n_workers;
    Carver carver(a_.workspace);
    queries_ = carver.take<std::byte>(n_rows_ * a_.n_heads * query_bytes_);
    if (a_.q_sink) sink_queries_ = carver.take<std::byte>(n_rows_ * a_.n_heads * query_bytes_);
    if (by_pieces_) table_ = take_rows(carver, n_tiles_ * a_.n_heads * most_entries_, shape_.o_stride());
    // Workers' parts stand last and side by side; each carves its own.
    Carver one(nullptr);
    WorkerScratch measure(one, shape_);
    Carver mine(carver.take<std::byte>(one.used() * n_workers) + one.used() * size_t(worker.index()));
    scratch_ = WorkerScratch(mine, shape_);
    std::memset(scratch_.zeros, 0, a_.v_dim * sizeof(float));
  }

  void run(Worker& worker, const std::atomic<bool>* cancelled) {
    const auto unless_cancelled = [&](auto work) {
      return [=](size_t chunk) {
        if (!cancelled || !cancelled->load(std::memory_order_relaxed)) work(chunk);
      };
    };
    const auto store_groups = [&](bool heads) {
      worker.for_chunks(n_store_groups() * shape_.n_kv_heads, unless_cancelled([this, heads](size_t chunk) { store(chunk / shape_.n_kv_heads, chunk % shape_.n_kv_heads, heads); }));
    };
    if (stores_heads()) store_groups(true);  // later keys are stored relative to them
    store_groups(false);
    const size_t n_units = n_tiles_ * shape_.n_kv_heads;
    if (!by_pieces_) {
      // The last tiles of a prompt see the most: they go first.
      worker.for_chunks(n_units, unless_cancelled([this, n_units](size_t chunk) { attend_tile(n_units - 1 - chunk); }));
      return;
    }
    worker.for_chunks(n_units * most_entries_, unless_cancelled([this](size_t chunk) { attend_entry(chunk / most_entries_, chunk % most_entries_); }));
    worker.for_chunks(n_units * shape_.group(), unless_cancelled([this](size_t chunk) { merge_entries(chunk / shape_.group(), chunk % shape_.group()); }));
  }

 private:
  /// A tile of one segment's tokens with one KV head.
  struct Unit {
    const AttentionSegment* segment;
    size_t first;     ///< token in the segment
    size_t n_tokens;
    size_t head;      ///< KV head
    size_t index;     ///< of the tile, all segments
    size_t position(size_t token) const { return segment->first_pos + first + token; }
    size_t row(size_t token) const { return segment->row + first + token; }
  };

  /// A piece as one kind of span sees it.
  struct Entry {
    size_t piece;
    bool sink;
  };

  Unit unit(size_t index) const {
    size_t tile = index / shape_.n_kv_heads;
    const size_t tile_index = tile;
    const AttentionSegment* s = a_.segments.data();
    for (; tile >= ceil_div(s->n_tokens, tile_tokens_); ++s) tile -= ceil_div(s->n_tokens, tile_tokens_);
    const size_t first = tile * tile_tokens_;
    return {s, first, std::min(tile_tokens_, s->n_tokens - first), index % shape_.n_kv_heads, tile_index};
  }

  static size_t store_groups(const AttentionSegment& s) {
    return s.n_tokens == 0 ? 0 : (s.first_pos + s.n_tokens - 1) / kStoreGroup - s.first_pos / kStoreGroup + 1;
  }
  size_t n_store_groups() const {
    size_t n = 0;
    for (const AttentionSegment& s : a_.segments) n += store_groups(s);
    return n;
  }

  /// Whether the step holds first positions of a sequence, whose keys make its frame.
  bool stores_heads() const {
    for (const AttentionSegment& s : a_.segments) {
      if (is_framed_ && s.first_pos < kHeadPositions && s.n_tokens > 0) return true;
    }
    return false;
  }

  bool keys_turn() const { return a_.pairing != RopePairing::kNone; }
  KeyTurn turn(const AttentionSegment& s) const { return keys_turn() ? key_turn(s.ropes[a_.rope], a_.pairing) : KeyTurn{}; }
  const float* piece_angles(const AttentionSegment& s, size_t piece) const { return keys_turn() ? rope_piece_angles(s.ropes[a_.rope], piece, scratch_.angles) : nullptr; }

  /// Writes the K and V rows of one KV head at up to 16 positions, and prepares the queries that share the head; of a framed
  /// type either those of first positions or the others.
  void store(size_t group, size_t head, bool heads) {
    const AttentionSegment* s = a_.segments.data();
    for (; group >= store_groups(*s); ++s) group -= store_groups(*s);
    const size_t tile = (s->first_pos / kStoreGroup + group) * kStoreGroup;
    if (heads != (is_framed_ && tile < kHeadPositions)) return;
    const size_t begin = std::max(tile, s->first_pos), end = std::min(tile + kStoreGroup, s->first_pos + s->n_tokens);
    const float* angles = is_framed_ ? piece_angles(*s, tile / kPiecePositions) : nullptr;
    for (size_t position = begin; position < end; ++position) {
      const size_t row = s->row + position - s->first_pos, stored = s->cache->row(a_.layer, position), piece = stored / kPiecePositions, offset = stored % kPiecePositions;
      float* k = a_.k + (row * a_.n_kv_heads + head) * a_.k_dim;
      if (heads) {
        add_to_frame(*s, head, position, k, a_.q + (row * a_.n_heads + head * shape_.group()) * a_.k_dim);
      } else {
        if (is_framed_) kv_frame_remove(s->cache->frame(a_.layer, head), a_.k_dim, turn(*s), angles, offset, k);
        if (kv_type_is_rotated(k_type_)) rotate_key(k);
        kernels_.store_k(k_type_, k, a_.k_dim, s->cache->k_block(a_.layer, piece, head), offset);
      }
      if (!values_in_keys_) {
        float* v = a_.v + (row * a_.n_kv_heads + head) * a_.v_dim;
        if (kv_type_is_rotated(v_type_)) a_.kernels->vector->hadamard(v, a_.v_dim);
        kernels_.store_v(v_type_, v, a_.v_dim, s->cache->v_block(a_.layer, piece, head), offset);
      }
      for (size_t i = 0; i < shape_.group(); ++i) {
        observe(*s, row, position, head * shape_.group() + i);
        prepare(*s, a_.q, queries_, row, head, i, heads);
        if (a_.q_sink) prepare(*s, a_.q_sink, sink_queries_, row, head, i, heads);
      }
    }
  }

  /// Keeps a query that the next eviction by use will look at.
  void observe(const AttentionSegment& s, size_t row, size_t position, size_t head) {
    if (float* kept = s.cache->observed_query(a_.layer, position, head)) std::memcpy(kept, a_.q + (row * a_.n_heads + head) * a_.k_dim, a_.k_dim * sizeof(float));
  }

  /// Keys that hold values are rotated in two parts, so that the values are rotated among themselves.
  void rotate_key(float* row) {
    const size_t first = values_in_keys_ ? a_.v_dim : a_.k_dim;
    a_.kernels->vector->hadamard(row, first);
    a_.kernels->vector->hadamard(row + first, a_.k_dim - first);
  }

  void add_to_frame(const AttentionSegment& s, size_t head, size_t position, const float* k, const float* queries) {
    const KeyFrame frame = s.cache->frame(a_.layer, head);
    kv_frame_add(frame, a_.k_dim, position, k, queries, shape_.group());
    if (position + 1 == kHeadPositions) kv_frame_complete(frame, k_type_, a_.k_dim, turn(s));
  }

  /// A query among the first positions sees no key but those, and so needs no more than itself.
  void prepare(const AttentionSegment& s, const float* source, std::byte* prepared, size_t row, size_t head, size_t i, bool is_first) {
    const float* q = source + (row * a_.n_heads + head * shape_.group() + i) * a_.k_dim;
    float* const changed = scratch_.rotated;
    prepared += query_index(row, head, i) * query_bytes_;
    if (is_framed_) {
      std::memcpy(prepared + kernels::query_float_offset(k_type_, a_.k_dim), q, a_.k_dim * sizeof(float));
      if (is_first) return;
      const KeyFrame frame = s.cache->frame(a_.layer, head);
      float* terms = reinterpret_cast<float*>(prepared + kernels::query_terms_offset(k_type_, a_.k_dim));
      kv_frame_query_terms(frame, a_.k_dim, turn(s), q, terms, terms + 16, terms + 16 + kernels::query_term_floats(a_.k_dim));
      for (size_t d = 0; d < a_.k_dim; ++d) changed[d] = q[d] * frame.to_query[d];
      q = changed;
    }
    if (kv_type_is_rotated(k_type_)) {
      if (q != changed) std::memcpy(changed, q, a_.k_dim * sizeof(float));
      rotate_key(changed);
      q = changed;
    }
    kernels_.prepare_query(k_type_, q, a_.k_dim, prepared);
  }

  /// Prepared queries stand together by KV head, tokens ascending, so that a tile is one run of rows.
  size_t query_index(size_t row, size_t head, size_t i) const { return (head * n_rows_ + row) * shape_.group() + i; }

  /// Attends some tokens of a unit, all of which see something of the piece in a span of the given kind; results go to `out`.
  /// Returns the tokens [*first, *first + n) that do; 0 if none.
  size_t attend_piece(const Unit& u, Entry entry, Rows out, size_t* first) {
    size_t n = 0;
    for (size_t token = 0; token < u.n_tokens; ++token) {
      KvSpan spans[KvCache::kMaxSpans];
      const size_t n_spans = u.segment->cache->spans(a_.layer, u.position(token), spans);
      for (size_t i = 0; i < n_spans; ++i) {
        const size_t start = entry.piece * kPiecePositions;
        const size_t begin = std::max(spans[i].begin, start), end = std::min(spans[i].end, start + kPiecePositions);
        if (spans[i].sink != entry.sink || begin >= end) continue;
        if (n == 0) *first = token;
        for (size_t j = 0; j < shape_.group(); ++j) {
          scratch_.begin[n * shape_.group() + j] = uint16_t(begin - start);
          scratch_.end[n * shape_.group() + j] = uint16_t(end - start);
        }
        if (a_.slopes) place_bias(u, token, entry, n * shape_.group());
        ++n;
      }
    }
    if (n == 0) return 0;
    kernels::AttendFrame frame{};
    if (is_framed_) {
      const KeyFrame f = u.segment->cache->frame(a_.layer, u.head);
      frame = {entry.piece == 0 ? f.keys : nullptr, *f.n_pairs, f.pairs, turn(*u.segment).offsets, piece_angles(*u.segment, entry.piece)};
    }
    const std::byte* queries = (entry.sink ? sink_queries_ : queries_) + query_index(u.row(*first), u.head, 0) * query_bytes_;
    kernels_.attend({.k_type = k_type_,
                     .v_type = v_type_,
                     .k_dim = a_.k_dim,
                     .v_dim = a_.v_dim,
                     .k_block = u.segment->cache->k_block(a_.layer, entry.piece, u.head),
                     .v_block = values_in_keys_ ? nullptr : u.segment->cache->v_block(a_.layer, entry.piece, u.head),
                     .frame = is_framed_ ? &frame : nullptr,
                     .queries = queries,
                     .n_queries = n * shape_.group(),
                     .begin = scratch_.begin,
                     .end = scratch_.end,
                     .scale = a_.scale,
                     .softcap = a_.softcap,
                     .m = out.m,
                     .l = out.l,
                     .o = out.o,
                     .o_stride = shape_.o_stride(),
                     .scratch = scratch_.attend,
                     .slopes = a_.slopes ? scratch_.slopes : nullptr,
                     .distances = scratch_.distances});
    return n;
  }

  /// Slopes of the query heads of a token, and how far it is from the piece: rows [first, first + group) of the scratch.
  void place_bias(const Unit& u, size_t token, Entry entry, size_t first) {
    const size_t position = entry.sink ? u.segment->cache->sink_query_position(u.position(token)) : u.position(token);
    std::copy_n(a_.slopes + u.head * shape_.group(), shape_.group(), scratch_.slopes + first);
    std::fill_n(scratch_.distances + first, shape_.group(), float(entry.piece * kPiecePositions) - float(position));
  }

  /// The pieces that tokens of a unit see, in the order in which they merge: those of the sinks, then the others.
  struct Entries {
    size_t n_sink_pieces, first_piece, n;
    Entry operator[](size_t i) const { return i < n_sink_pieces ? Entry{i, true} : Entry{first_piece + i - n_sink_pieces, false}; }
  };
  Entries entries(const Unit& u) const {
    KvSpan first[KvCache::kMaxSpans], last[KvCache::kMaxSpans];
    const size_t n_first = u.segment->cache->spans(a_.layer, u.position(0), first);
    const size_t n_last = u.segment->cache->spans(a_.layer, u.position(u.n_tokens - 1), last);
    const size_t n_sink_pieces = last[0].sink ? ceil_div(last[0].end, kPiecePositions) : 0;
    const size_t first_piece = first[n_first - 1].begin / kPiecePositions;
    return {n_sink_pieces, first_piece, n_sink_pieces + ceil_div(last[n_last - 1].end, kPiecePositions) - first_piece};
  }

  void attend_tile(size_t index) {
    const Unit u = unit(index);
    const size_t n_rows = u.n_tokens * shape_.group();
    const Rows running = scratch_.running;
    for (size_t i = 0; i < n_rows; ++i) reset(running, i);
    const Entries all = entries(u);
    for (size_t e = 0; e < all.n; ++e) {
      size_t first = 0;
      const size_t n = attend_piece(u, all[e], scratch_.partial, &first);
      for (size_t i = 0; i < n * shape_.group(); ++i) merge_row(running, first * shape_.group() + i, scratch_.partial, i);
    }
    for (size_t i = 0; i < n_rows; ++i) finish(u, i / shape_.group(), i % shape_.group(), running, i);
  }

  size_t table_row(const Unit& u, size_t entry) const { return ((u.index * shape_.n_kv_heads + u.head) * most_entries_ + entry) * shape_.group(); }

  /// One entry of a unit of one token; entries past its last do nothing.
  void attend_entry(size_t index, size_t e) {
    const Unit u = unit(index);
    const Entries all = entries(u);
    size_t first;
    if (e < all.n) attend_piece(u, all[e], table_.from(table_row(u, e), shape_.o_stride()), &first);
  }

  void merge_entries(size_t index, size_t query) {
    const Unit u = unit(index);
    reset(scratch_.running, 0);
    const size_t n = entries(u).n;
    for (size_t e = 0; e < n; ++e) merge_row(scratch_.running, 0, table_, table_row(u, e) + query);
    finish(u, 0, query, scratch_.running, 0);
  }

  void reset(const Rows& rows, size_t i) {
    rows.m[i] = -__builtin_inff();
    rows.l[i] = 0.0f;
    std::memset(rows.o + i * shape_.o_stride(), 0, shape_.o_stride() * sizeof(float));
  }

  void merge_row(const Rows& running, size_t i, const Rows& part, size_t j) {
    kernels_.merge(running.m + i, running.l + i, running.o + i * shape_.o_stride(), part.m[j], part.l[j], part.o + j * shape_.o_stride(), a_.v_dim);
  }

  /// The learned sink, o/l, and the rotation undone.
  void finish(const Unit& u, size_t token, size_t query, const Rows& running, size_t i) {
    const size_t head = u.head * shape_.group() + query;
    float* o = running.o + i * shape_.o_stride();
    if (a_.sinks) kernels_.merge(running.m + i, running.l + i, o, a_.sinks[head], 1.0f, scratch_.zeros, a_.v_dim);
    float* out = a_.out + (u.row(token) * a_.n_heads + head) * a_.v_dim;
    for (size_t d = 0; d < a_.v_dim; ++d) out[d] = o[d] / running.l[i];
    if (kv_type_is_rotated(v_type_)) a_.kernels->vector->hadamard(out, a_.v_dim);
  }

  const AttentionArgs& a_;
  const Shape shape_;
  const kernels::AttentionKernels& kernels_;
  KvType k_type_, v_type_;
  bool values_in_keys_;
  bool is_framed_;
  size_t query_bytes_;
  size_t tile_tokens_;
  size_t n_rows_ = 0, n_tiles_ = 0, most_entries_ = 0;
  bool by_pieces_ = false;
  std::byte* queries_ = nullptr;
  std::byte* sink_queries_ = nullptr;
  Rows table_{};
  WorkerScratch scratch_;
};

}  // namespace

size_t most_pieces_seen(const KvLayerLayout& layer, size_t n_positions) {
  const size_t all = ceil_div(n_positions, kPiecePositions) + 1;  // sinks and window may share a piece, which then counts twice
  if (layer.heavy > 0) return std::min(all, layer.n_pieces);
  if (layer.window == 0) return all;
  return std::min(all, ceil_div(layer.window, kPiecePositions) + 1 + ceil_div(layer.sinks, kPiecePositions));
}

size_t attention_workspace_bytes(size_t n_tokens, size_t n_heads, size_t n_kv_heads, size_t k_dim, size_t v_dim, size_t n_pieces, int n_workers) {
  const Shape shape{n_heads, n_kv_heads, k_dim, v_dim};
  Carver carver(nullptr);
  size_t query_bytes = 0;
  for (const KvType type : all_kv_types()) query_bytes = std::max(query_bytes, kernels::query_bytes(type, k_dim));
  for (int i = 0; i < 2; ++i) carver.take<std::byte>(n_tokens * n_heads * query_bytes);  // with q_sink
  const size_t most_tiles = std::min(n_tokens, ceil_div(kUnitsPerWorker * size_t(n_workers), n_kv_heads));
  take_rows(carver, most_tiles * n_heads * n_pieces, shape.o_stride());
  Carver one(nullptr);
  WorkerScratch measure(one, shape);
  carver.take<std::byte>(one.used() * size_t(n_workers));
  return carver.used();
}

void attention(Worker& worker, const AttentionArgs& args, const std::atomic<bool>* cancelled) {
  if (args.segments.empty()) return;
  Step(worker, args).run(worker, cancelled);
}

}  // namespace quern::ops
