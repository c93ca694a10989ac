// Bringing the mapped weights into memory before the first step, so that its time is not the disk's.
#include <algorithm>
#include <chrono>
#include <vector>

#include "base/cpu.h"
#include "engine/engine_impl.h"
#include "parallel/team.h"

namespace quern {
namespace {

constexpr size_t kSliceBytes = size_t(4) << 20;

/// What steps read: a prompt soon asks for most experts, and in the file's order they come faster. Of an embedding table of its own, a
/// few rows are used and come as they are.
std::vector<std::span<const std::byte>> weight_slices(const ModelWeights& weights) {
  std::vector<std::span<const std::byte>> slices;
  const auto add = [&](const Weight& w) {
    const std::span bytes(w.data, w.n_rows * w.row_bytes);
    for (size_t at = 0; at < bytes.size(); at += kSliceBytes) slices.push_back(bytes.subspan(at, std::min(kSliceBytes, bytes.size() - at)));
  };
  for (const Weight* w : step_weights(weights)) add(*w);
  for (const LayerWeights& layer : weights.layers) {
    for (const std::vector<Weight>* experts : {&layer.experts.gate, &layer.experts.up, &layer.experts.down}) {
      for (const Weight& w : *experts) add(w);
    }
  }
  return slices;
}

}  // namespace

double Engine::Impl::page_in() {
  double ms = 0;
  std::call_once(paged_in, [&] {
    // A file that does not fit would push out its own beginning; it is read as it is used.
    if (!options.mmap || model.file.total_bytes() > available_memory_bytes()) return;
    const auto start = std::chrono::steady_clock::now();
    const auto slices = weight_slices(model.weights);
    run_team(n_threads, [&](Worker& worker) { worker.for_chunks(slices.size(), [&](size_t i) { MappedFile::page_in(slices[i]); }); });
    ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  });
  return ms;
}

}  // namespace quern
