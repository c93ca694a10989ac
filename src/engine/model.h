// A loaded model: the file, its numbers, its weights and its tokenizer. Read-only once made; any number of sessions share it.
#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "gguf/model_file.h"
#include "model/params.h"
#include "model/weights.h"
#include "text/tokenizer.h"

namespace quern {

struct Model {
  gguf::ModelFile file;
  ModelParams params;
  ModelWeights weights;
  std::unique_ptr<Tokenizer> tokenizer;
  std::vector<std::string> warnings;   ///< of the tokenizer and the file, for the user to see once
  double load_ms = 0;

  /// @throws Error(kModel)
  Model(const std::filesystem::path& path, MappedFile::Mode mode, std::string_view pre_override);
};

}  // namespace quern
