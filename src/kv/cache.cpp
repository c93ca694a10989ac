// The cache's memory: one reservation of address space, committed and released by whole pieces.
#include "kv/cache.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <string>

#include "base/check.h"
#include "base/cpu.h"

namespace quern {
namespace {

constexpr size_t kHugePageBytes = 2 << 20;
constexpr size_t kHysteresisSlots = 1;  // kept when rewinding, so that a step back and forth costs no page faults

double mib(uint64_t bytes) { return double(bytes) / double(1 << 20); }

std::string address_space_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "RLIMIT_AS is unlimited";
  return fmt::format("RLIMIT_AS is {:.0f} MiB", mib(limit.rlim_cur));
}

}  // namespace

KvCache::KvCache(KvLayout layout) : layout_(std::move(layout)), committed_slots_(layout_.n_layers(), 0), lost_pieces_(layout_.n_layers(), 0) {
  prepare_heavy();
  const uint64_t bytes = layout_.reserved_bytes();
  if (bytes == 0) return;
  void* p = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) {
    throw_error(ErrorKind::kRuntime, "cannot reserve {:.1f} MiB of address space for a KV cache of {} tokens ({}; {}): lower the context with -c or raise the limit",
                mib(bytes), layout_.options().n_ctx, std::strerror(errno), address_space_limit());
  }
  base_ = static_cast<std::byte*>(p);
  // With THP=always the first touch of a piece would commit 2 MiB; each layer gets them back once it is that large.
  madvise(base_, bytes, MADV_NOHUGEPAGE);
}

KvCache::~KvCache() {
  if (base_) munmap(base_, layout_.reserved_bytes());
}

void KvCache::prepare_heavy() {
  for (size_t i = 0; i < layout_.n_layers(); ++i) {
    const KvLayerLayout& l = layout_.layer(i);
    if (l.heavy == 0 || l.heavy > layout_.options().n_ctx) continue;
    heavy_ = l.heavy;
    heavy_layers_.resize(layout_.n_layers());
    HeavyLayer& layer = heavy_layers_[i];
    layer.queries.resize(kObservedQueries * l.geometry.n_heads * l.geometry.k_dim);
    layer.use.assign(l.geometry.n_kv_heads * l.heavy, 0.0f);
    layer.positions.assign(l.geometry.n_kv_heads * l.heavy, 0);
  }
}

KvCache::HeadUse KvCache::use(size_t layer, size_t head) {
  HeavyLayer& h = heavy_layers_[layer];
  const size_t at = head * layout_.layer(layer).heavy;
  return {h.use.data() + at, h.positions.data() + at};
}

float* KvCache::observed_query(size_t layer, size_t position, size_t head) {
  const KvLayerLayout& l = layout_.layer(layer);
  const size_t offset = position % kPiecePositions;
  // Pieces before the first decision are not looked at; only from there on do steps end at every boundary, so that no two positions of one share a place.
  if (heavy_ == 0 || l.heavy == 0 || offset + kObservedQueries < kPiecePositions || position - offset + kPiecePositions < heavy_) return nullptr;
  return heavy_layers_[layer].queries.data() + ((offset + kObservedQueries - kPiecePositions) * l.geometry.n_heads + head) * l.geometry.k_dim;
}

size_t KvCache::step_end(size_t position) const {
  if (heavy_ == 0) return std::numeric_limits<size_t>::max();
  return position < heavy_ ? heavy_ : (position / kPiecePositions + 1) * kPiecePositions;
}

size_t KvCache::rewind_point(size_t n_tokens) const {
  const size_t past = n_tokens % kPiecePositions, first_observed = kPiecePositions - kObservedQueries;
  return heavy_ > 0 && n_tokens < n_tokens_ && past > first_observed ? n_tokens - past + first_observed : n_tokens;
}

uint64_t KvCache::missing_bytes(size_t n_tokens) const {
  uint64_t missing = 0;
  for (size_t i = 0; i < layout_.n_layers(); ++i) {
    const KvLayerLayout& l = layout_.layer(i);
    QUERN_CHECK(l.is_ring || l.heavy > 0 || n_tokens <= l.n_pieces * kPiecePositions, "{} tokens, context {}", n_tokens, layout_.options().n_ctx);
    const size_t wanted = l.slots_for(n_tokens);
    if (wanted > committed_slots_[i]) missing += l.bytes_with_slots(wanted) - l.bytes_with_slots(committed_slots_[i]);
  }
  return missing;
}

void KvCache::prepare(size_t n_tokens) {
  if (missing_bytes(n_tokens) > 0) {
    check_memory(n_tokens);
    for (size_t i = 0; i < layout_.n_layers(); ++i) commit(i, layout_.layer(i).slots_for(n_tokens));
  }
  high_water_ = std::max(high_water_, n_tokens);
  for (size_t i = 0; i < layout_.n_layers(); ++i) {
    const KvLayerLayout& l = layout_.layer(i);
    // A ring holds its last pieces up to the one that was written last.
    if (l.is_ring && high_water_ > l.n_pieces * kPiecePositions) {
      lost_pieces_[i] = std::max(lost_pieces_[i], (high_water_ - 1) / kPiecePositions - (l.n_pieces - l.n_pinned) + 1);
    }
  }
}

void KvCache::check_memory(size_t n_tokens) const {
  const uint64_t missing = missing_bytes(n_tokens), limit = layout_.options().memory_limit_bytes, total = committed_bytes_ + missing;
  if (missing == 0) return;
  if (limit > 0 && total > limit) {
    throw_error(ErrorKind::kRuntime, "the KV cache needs {:.1f} MiB for {} tokens and its limit is {:.1f} MiB: raise the limit, lower the context or choose a smaller KV type",
                mib(total), n_tokens, mib(limit));
  }
  const uint64_t available = available_memory_bytes();
  if (missing > available) {
    throw_error(ErrorKind::kRuntime, "the KV cache needs {:.1f} MiB more for {} tokens ({:.1f} MiB in all) and {:.1f} MiB of memory are available: lower the context or choose a smaller KV type",
                mib(missing), n_tokens, mib(total), mib(available));
  }
}

void KvCache::commit(size_t layer, size_t n_slots) {
  const KvLayerLayout& l = layout_.layer(layer);
  size_t& committed = committed_slots_[layer];
  if (n_slots <= committed) return;
  std::byte* const start = frames(layer);
  const size_t before = l.bytes_with_slots(committed), after = l.bytes_with_slots(n_slots), bytes = after - before;
  if (mprotect(start + before, bytes, PROT_READ | PROT_WRITE) != 0) {
    throw_error(ErrorKind::kRuntime, "cannot commit {:.1f} MiB for the KV cache of layer {} ({}; {:.1f} MiB are committed so far): lower the context or choose a smaller KV type",
                mib(bytes), layer, std::strerror(errno), mib(committed_bytes_));
  }
  committed = n_slots;
  committed_bytes_ += bytes;
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(start) + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(start) + after) / kHugePageBytes * kHugePageBytes;
  if (end > begin) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}

void KvCache::release(size_t layer, size_t n_slots) {
  const KvLayerLayout& l = layout_.layer(layer);
  size_t& committed = committed_slots_[layer];
  if (n_slots >= committed) return;
  std::byte* const start = frames(layer) + l.bytes_with_slots(n_slots);
  const size_t bytes = l.bytes_with_slots(committed) - l.bytes_with_slots(n_slots);
  madvise(start, bytes, MADV_DONTNEED);
  mprotect(start, bytes, PROT_NONE);
  committed = n_slots;
  committed_bytes_ -= bytes;
}

bool KvCache::rewind(size_t n_tokens) {
  if (n_tokens >= n_tokens_ && n_tokens >= high_water_) return true;
  if (n_tokens > 0 && n_tokens < oldest_rewind()) return false;
  n_tokens_ = std::min(n_tokens_, n_tokens);
  for (size_t i = 0; i < layout_.n_layers(); ++i) {
    const KvLayerLayout& l = layout_.layer(i);
    const bool wrapped = l.is_ring && high_water_ > l.n_pieces * kPiecePositions;
    if (n_tokens == 0 || !wrapped) release(i, n_tokens == 0 ? 0 : l.slots_for(n_tokens) + kHysteresisSlots);
  }
  // Only starting again makes rows that a ring lost irrelevant.
  if (n_tokens == 0) {
    high_water_ = 0;
    n_decisions_ = 0;
    for (HeavyLayer& layer : heavy_layers_) std::fill(layer.use.begin(), layer.use.end(), 0.0f);
    lost_pieces_.assign(lost_pieces_.size(), 0);
  }
  return true;
}

void KvCache::go_back(size_t n_tokens, const std::vector<size_t>& first) {
  QUERN_CHECK(n_tokens <= n_tokens_ && first.size() == layout_.n_layers(), "{} of {} tokens, {} layers", n_tokens, n_tokens_, first.size());
  n_tokens_ = high_water_ = n_tokens;
  for (size_t i = 0; i < layout_.n_layers(); ++i) {
    const KvLayerLayout& l = layout_.layer(i);
    if (l.is_ring) lost_pieces_[i] = first[i] > l.n_pinned ? first[i] : 0;
    else release(i, l.slots_for(n_tokens) + kHysteresisSlots);
  }
}

size_t KvCache::oldest_rewind() const {
  size_t oldest = n_decisions_ > 0 ? heavy_ + (n_decisions_ - 1) * kPiecePositions : 0;
  for (size_t i = 0; i < layout_.n_layers(); ++i) {
    // The query at n sees n − window + 1 and later.
    if (lost_pieces_[i] > 0) oldest = std::max(oldest, lost_pieces_[i] * kPiecePositions + layout_.layer(i).window - 1);
  }
  return oldest;
}

KvCache::HeldPieces KvCache::held_pieces(size_t layer) const {
  const size_t end = (n_tokens_ + kPiecePositions - 1) / kPiecePositions;
  const size_t n_pinned = std::min(layout_.layer(layer).n_pinned, end);
  return {n_pinned, std::clamp(lost_pieces_[layer], n_pinned, end), end};
}

void KvCache::restore(size_t n_tokens, const std::vector<size_t>& first) {
  QUERN_CHECK(n_tokens_ == 0 && high_water_ == 0 && first.size() == layout_.n_layers(), "{} tokens, {} layers", n_tokens_, first.size());
  prepare(n_tokens);
  for (size_t i = 0; i < layout_.n_layers(); ++i) {
    if (first[i] > layout_.layer(i).n_pinned) lost_pieces_[i] = std::max(lost_pieces_[i], first[i]);
  }
  advance(n_tokens);
}

size_t KvCache::spans(size_t layer, size_t position, KvSpan* out) const {
  const KvLayerLayout& l = layout_.layer(layer);
  const size_t end = row(layer, position) + 1;
  if (l.window == 0 || end <= size_t(l.window) + l.sinks) {
    out[0] = {0, end, false};
    return 1;
  }
  size_t n = 0;
  if (l.sinks > 0) out[n++] = {0, l.sinks, true};
  out[n++] = {end - l.window, end, false};
  return n;
}

size_t KvCache::sink_query_position(size_t position) const {
  const KvPolicy& policy = layout_.options().policy;
  return std::min(position, size_t(policy.sinks) + policy.window - 1);
}

}  // namespace quern
