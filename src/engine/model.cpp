// Opening a model: the architecture is checked first, so that an unsupported file is called just that.
#include "engine/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/check.h"

namespace quern {
namespace {

constexpr size_t kNamedTensors = 4;

std::string unused_text(const std::vector<std::string>& unused) {
  std::string names;
  for (size_t i = 0; i < std::min(kNamedTensors, unused.size()); ++i) names += (i ? ", " : "") + gguf::quoted(unused[i]);
  return fmt::format("the file has {} tensor{} that quern does not know in this architecture ({}{}) and computes without: answers will likely differ from the original's", unused.size(),
                     unused.size() == 1 ? "" : "s", names, unused.size() > kNamedTensors ? " …; quern inspect lists all" : "");
}

}  // namespace

Model::Model(const std::filesystem::path& path, MappedFile::Mode mode, std::string_view pre_override) : file(path, mode) {
  const auto start = std::chrono::steady_clock::now();
  naming_path(path.string(), [&] {
    params = read_params(file.header());
    if (params.unused_window != 0 && params.unused_window < params.n_ctx_train) {
      warnings.push_back(fmt::format("the file states a window of {} tokens, which is not applied to this architecture: answers beyond that many tokens may differ from the original's", params.unused_window));
    }
    weights = load_weights(file.header(), params);
    if (!weights.unused.empty()) warnings.push_back(unused_text(weights.unused));
    tokenizer = Tokenizer::from_gguf(file.header(), pre_override, &warnings);
  });
  load_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace quern
