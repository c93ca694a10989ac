// The table of architectures.
#include "model/archs.h"

namespace quern {
namespace {

constexpr ArchSpec kArchs[] = {
    {.name = "gemma3", .activation = Activation::kGelu, .scale_embedding = true, .window_pattern = 6, .local_rope_base = 10000.0f},
    {.name = "llama", .rope = RopePairing::kInterleaved},
    {.name = "qwen2"},
};

}  // namespace

const ArchSpec* find_arch(std::string_view name) {
  for (const ArchSpec& arch : kArchs) {
    if (arch.name == name) return &arch;
  }
  return nullptr;
}

std::span<const ArchSpec> all_archs() { return kArchs; }

std::string arch_names() {
  std::string names;
  for (const ArchSpec& arch : kArchs) names += (names.empty() ? "" : ", ") + std::string(arch.name);
  return names;
}

}  // namespace quern
