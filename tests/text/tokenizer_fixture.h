// What the tokenizer tests share: loading a vocabulary from a file, finding real models, and writing small
// vocabularies.
#pragma once
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gguf/model_file.h"
#include "text/tokenizer.h"

namespace quern::test {

/// A tokenizer together with the file whose bytes it looks into.
class LoadedTokenizer {
 public:
  explicit LoadedTokenizer(const std::filesystem::path& path)
      : file_(path), tokenizer_(Tokenizer::from_gguf(file_.header())) {}
  const Tokenizer& operator*() const { return *tokenizer_; }
  const Tokenizer* operator->() const { return tokenizer_.get(); }

 private:
  gguf::ModelFile file_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

/// A fetched model, or nothing with a line that says why the test is skipped.
inline std::optional<std::filesystem::path> find_model(const std::string& name) {
  const auto path = std::filesystem::path(QUERN_MODELS) / name;
  if (std::filesystem::exists(path)) return path;
  std::cout << "skipped: " << path.string() << " is not there (models/fetch brings it)\n";
  return std::nullopt;
}

inline std::filesystem::path vocabulary(const std::string& name) {
  return std::filesystem::path(QUERN_GOLDEN) / "tokenizers" / ("ggml-vocab-" + name + ".gguf");
}

}  // namespace quern::test
