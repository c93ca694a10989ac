// What the tokenizer tests share: loading a vocabulary from a file and finding real models.
#pragma once
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gguf/model_file.h"
#include "text/small_vocab.h"
#include "text/tokenizer.h"

namespace quern::test {

/// A tokenizer together with the file whose bytes it looks into.
class LoadedTokenizer {
 public:
  explicit LoadedTokenizer(const std::filesystem::path& path)
      : file_(path), tokenizer_(Tokenizer::from_gguf(file_.header())) {}
  const Tokenizer& operator*() const { return *tokenizer_; }
  const Tokenizer* operator->() const { return tokenizer_.get(); }
  const gguf::Header& header() const { return file_.header(); }

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

inline constexpr const char* kSmol = "SmolLM2-135M-Instruct.Q4_1.gguf";
inline constexpr const char* kGemma = "gemma-3-270m-q4_k_m.gguf";

inline std::filesystem::path vocabulary(const std::string& name) {
  return std::filesystem::path(QUERN_GOLDEN) / "tokenizers" / ("ggml-vocab-" + name + ".gguf");
}

}  // namespace quern::test
