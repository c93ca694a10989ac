// Opening a model: the architecture is checked first, so that an unsupported file is called just that.
#include "engine/model.h"

#include <chrono>

namespace quern {

Model::Model(const std::filesystem::path& path, MappedFile::Mode mode, std::string_view pre_override) : file(path, mode) {
  const auto start = std::chrono::steady_clock::now();
  params = read_params(file.header());
  weights = load_weights(file.header(), params);
  tokenizer = Tokenizer::from_gguf(file.header(), pre_override, &warnings);
  load_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace quern
