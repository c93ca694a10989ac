// Opening a model: the architecture is checked first, so that an unsupported file is called just that.
#include "engine/model.h"

#include <fmt/format.h>

#include <chrono>

namespace quern {

Model::Model(const std::filesystem::path& path, MappedFile::Mode mode, std::string_view pre_override) : file(path, mode) {
  const auto start = std::chrono::steady_clock::now();
  params = read_params(file.header());
  if (params.unused_window != 0 && params.unused_window < params.n_ctx_train) {
    warnings.push_back(fmt::format("the file states a window of {} tokens, which is not applied to this architecture: answers beyond that many tokens may differ from the original's", params.unused_window));
  }
  weights = load_weights(file.header(), params);
  tokenizer = Tokenizer::from_gguf(file.header(), pre_override, &warnings);
  load_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace quern
