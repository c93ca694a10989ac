// One unit of work is a KV head of a layer: its scores, its choice, its rows.
#include "ops/evict.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/aligned.h"
#include "parallel/team.h"

namespace quern::ops {
namespace {

constexpr float kOldUse = 0.5f;  // what use counted at a decision is worth at the next one

/// What one worker needs for itself.
struct Scratch {
  AlignedBuffer<float> keys;     ///< [rows, k_dim] as stored: still rotated where the type is
  AlignedBuffer<float> query;    ///< [k_dim]
  AlignedBuffer<float> value;    ///< [v_dim]
  AlignedBuffer<float> weights;  ///< [rows]
  std::vector<float> added;      ///< [rows]
  std::vector<uint32_t> order;   ///< [rows]
};

class Head {
 public:
  Head(const kernels::Kernels& kernels, KvCache& cache, size_t layer, size_t head, size_t position, Scratch& scratch)
      : k_(kernels), cache_(cache), layer_(layer), head_(head), position_(position), s_(scratch), l_(cache.layout().layer(layer)), n_rows_(l_.heavy), use_(cache.use(layer, head)) {}

  void run(float scale, float softcap) {
    load_keys();
    add_use(scale, softcap);
    choose();
    close_gaps();
  }

 private:
  KvType k_type() const { return cache_.layout().options().k_type; }
  KvType v_type() const { return cache_.layout().options().v_type; }
  std::byte* k_block(size_t row) { return cache_.k_block(layer_, row / kPiecePositions, head_); }
  std::byte* v_block(size_t row) { return cache_.v_block(layer_, row / kPiecePositions, head_); }
  float* key(size_t row) { return s_.keys.data() + row * l_.geometry.k_dim; }

  void load_keys() {
    for (size_t row = 0; row < n_rows_; ++row) k_.attention->load_k(k_type(), k_block(row), l_.geometry.k_dim, row % kPiecePositions, key(row));
  }

  void add_use(float scale, float softcap) {
    s_.added.assign(n_rows_, 0.0f);
    const size_t group = l_.geometry.n_heads / l_.geometry.n_kv_heads, dim = l_.geometry.k_dim;
    for (size_t position = position_ - kObservedQueries; position < position_; ++position) {
      const size_t n_seen = position + 1 - l_.evicted(position);
      for (size_t i = 0; i < group; ++i) {
        std::memcpy(s_.query.data(), cache_.observed_query(layer_, position, head_ * group + i), dim * sizeof(float));
        if (kv_type_is_rotated(k_type())) k_.vector->hadamard(s_.query.data(), dim);
        float* weights = s_.weights.data();
        for (size_t row = 0; row < n_seen; ++row) weights[row] = k_.vector->dot(s_.query.data(), key(row), dim) * scale;
        if (softcap > 0.0f) k_.vector->softcap(weights, softcap, n_seen);
        const float sum = k_.vector->exp_sum(weights, k_.vector->max(weights, n_seen), weights, n_seen);
        for (size_t row = 0; row < n_seen; ++row) s_.added[row] += weights[row] / sum;
      }
    }
    for (size_t row = 0; row < n_rows_; ++row) use_.use[row] = use_.use[row] * kOldUse + s_.added[row];
  }

  /// The first n_kept of `order`, ascending, are the rows that stay.
  void choose() {
    n_kept_ = n_rows_ - kPiecePositions;
    const size_t n_recent = recent_rows_kept(n_kept_), n_old = n_rows_ - n_recent, n_heavy = n_kept_ - n_recent;
    s_.order.resize(n_rows_);
    for (size_t row = 0; row < n_rows_; ++row) s_.order[row] = uint32_t(row);
    const auto old_end = s_.order.begin() + ptrdiff_t(n_old), heavy_end = s_.order.begin() + ptrdiff_t(n_heavy);
    std::nth_element(s_.order.begin(), heavy_end, old_end, [&](uint32_t a, uint32_t b) { return use_.use[a] != use_.use[b] ? use_.use[a] > use_.use[b] : a < b; });
    std::copy(old_end, s_.order.end(), heavy_end);
    std::sort(s_.order.begin(), s_.order.begin() + ptrdiff_t(n_kept_));
  }

  void close_gaps() {
    for (size_t row = 0; row < n_rows_; ++row) {  // those that came since the last decision stand where they were stored
      if (row >= n_kept_ || position_ == n_rows_) use_.positions[row] = uint32_t(row + l_.evicted(position_ - 1));
    }
    for (size_t to = 0; to < n_kept_; ++to) {
      const size_t from = s_.order[to];
      use_.use[to] = use_.use[from];
      use_.positions[to] = use_.positions[from];
      if (from == to) continue;
      k_.attention->store_k(k_type(), key(from), l_.geometry.k_dim, k_block(to), to % kPiecePositions);
      if (l_.geometry.v_dim == 0) continue;
      k_.attention->load_v(v_type(), v_block(from), l_.geometry.v_dim, from % kPiecePositions, s_.value.data());
      k_.attention->store_v(v_type(), s_.value.data(), l_.geometry.v_dim, v_block(to), to % kPiecePositions);
    }
    std::fill(use_.use + n_kept_, use_.use + n_rows_, 0.0f);
  }

  const kernels::Kernels& k_;
  KvCache& cache_;
  size_t layer_, head_, position_;
  Scratch& s_;
  const KvLayerLayout& l_;
  size_t n_rows_, n_kept_ = 0;
  KvCache::HeadUse use_;
};

}  // namespace

size_t recent_rows_kept(size_t n_kept) { return n_kept / 2; }

void evict(int n_threads, const kernels::Kernels& kernels, KvCache& cache, size_t position, float scale, float softcap) {
  const KvLayout& layout = cache.layout();
  std::vector<std::pair<size_t, size_t>> units;  // layer, head
  size_t k_dim = 0, v_dim = 1, n_rows = 0;
  for (size_t layer = 0; layer < layout.n_layers(); ++layer) {
    const KvLayerLayout& l = layout.layer(layer);
    if (l.heavy == 0) continue;
    for (size_t head = 0; head < l.geometry.n_kv_heads; ++head) units.emplace_back(layer, head);
    k_dim = std::max<size_t>(k_dim, l.geometry.k_dim);
    v_dim = std::max<size_t>(v_dim, l.geometry.v_dim);
    n_rows = std::max(n_rows, l.heavy);
  }
  std::vector<Scratch> scratch(static_cast<size_t>(n_threads));
  for (Scratch& s : scratch) {
    s.keys.resize(n_rows * k_dim);
    s.query.resize(k_dim);
    s.value.resize(v_dim);
    s.weights.resize(n_rows);
    s.added.resize(n_rows);
    s.order.resize(n_rows);
  }
  run_team(n_threads, [&](Worker& worker) {
    worker.for_chunks(units.size(), [&](size_t i) { Head(kernels, cache, units[i].first, units[i].second, position, scratch[size_t(worker.index())]).run(scale, softcap); });
  });
}

}  // namespace quern::ops
