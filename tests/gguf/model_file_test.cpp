// ModelFile on real files: the fetched models, where they are there.
#include "gguf/model_file.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <string>

using namespace quern;

namespace {

std::map<std::string, int> count_types(const gguf::Header& header) {
  std::map<std::string, int> counts;
  for (const gguf::TensorInfo& tensor : header.tensors) ++counts[std::string(tensor.format->name)];
  return counts;
}

}  // namespace

TEST_CASE("the real models are read") {
  const std::filesystem::path dir = QUERN_MODELS;
  const auto smol_path = dir / "SmolLM2-135M-Instruct.Q4_1.gguf";
  const auto gemma_path = dir / "gemma-3-270m-q4_k_m.gguf";
  if (!std::filesystem::exists(smol_path) || !std::filesystem::exists(gemma_path)) {
    WARN("skipped: no SmolLM2 or Gemma 3 in " + dir.string() + " (models/fetch brings them)");
    return;
  }
  const gguf::ModelFile smol(smol_path);
  CHECK(smol.header().get_string("general.architecture") == "llama");
  CHECK(smol.header().get_uint("llama.context_length") == 8192);
  CHECK(smol.header().get_bool("tokenizer.ggml.add_bos_token") == false);
  CHECK(smol.header().get_array("tokenizer.ggml.tokens")->strings.size() == 49152);
  CHECK(count_types(smol.header()) == std::map<std::string, int>{{"F32", 61}, {"Q4_1", 210}, {"Q8_0", 1}});
  CHECK(!smol.header().find_tensor("output.weight"));
  CHECK(smol.total_bytes() == std::filesystem::file_size(smol_path));

  const gguf::ModelFile gemma(gemma_path, MappedFile::Mode::kRead);
  CHECK(count_types(gemma.header()) ==
        std::map<std::string, int>{{"F32", 109}, {"Q5_0", 81}, {"Q4_K", 27}, {"Q8_0", 10}, {"Q6_K", 9}});
  for (const gguf::TensorInfo& tensor : gemma.header().tensors) CHECK(tensor.data.size() == tensor.n_bytes);
}
