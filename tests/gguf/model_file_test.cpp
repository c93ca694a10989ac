// ModelFile: split sets made here, whole and broken in every way; and the fetched models, where they are there.
#include "gguf/model_file.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>

#include "base/check.h"
#include "gguf/writer.h"
#include "temp_dir.h"

using namespace quern;
using quern::testing::TempDir;

namespace {

std::map<std::string, int> count_types(const gguf::Header& header) {
  std::map<std::string, int> counts;
  for (const gguf::TensorInfo& tensor : header.tensors) ++counts[std::string(tensor.format->name)];
  return counts;
}

std::filesystem::path part_path(const TempDir& dir, int part, int n_parts) {
  return dir.path / fmt::format("m-{:05}-of-{:05}.gguf", part + 1, n_parts);
}

/// One part with one tensor "tN" of four floats, all N. `change` may add or replace what it says before it is written.
void write_part(const std::filesystem::path& path, int part, int n_parts, const char* tensor_name = nullptr,
                const std::function<void(gguf::Writer&)>& change = {}, int total = -1) {
  gguf::Writer writer;
  writer.set("split.no", uint16_t(part));
  writer.set("split.count", uint16_t(n_parts));
  writer.set("split.tensors.count", int32_t(total < 0 ? n_parts : total));
  if (part == 0) writer.set("general.architecture", "llama");
  if (change) change(writer);
  const uint64_t dims[] = {4};
  writer.add_tensor(tensor_name ? tensor_name : fmt::format("t{}", part), TensorType::F32, dims);
  const std::vector<float> values(4, float(part));
  writer.write(path, [&](size_t) { return std::as_bytes(std::span(values)); });
}

/// The message of opening `path`; empty when it opens. Bad files have status 3.
std::string open_message(const std::filesystem::path& path) {
  try {
    const gguf::ModelFile file(path);
  } catch (const Error& error) {
    CHECK(error.exit_status() == 3);
    return error.what();
  }
  return {};
}

}  // namespace

using Catch::Matchers::Contains;

TEST_CASE("a split set is found from its first part") {
  const TempDir dir;
  for (int part = 0; part < 3; ++part) write_part(part_path(dir, part, 3), part, 3);
  for (const auto mode : {MappedFile::Mode::kMap, MappedFile::Mode::kRead}) {
    const gguf::ModelFile file(part_path(dir, 0, 3), mode);
    REQUIRE(file.header().tensors.size() == 3);
    CHECK(file.parts().size() == 3);
    CHECK(file.header().get_string("general.architecture") == "llama");
    for (uint32_t i = 0; i < 3; ++i) {
      const gguf::TensorInfo* tensor = file.header().find_tensor(fmt::format("t{}", i));
      REQUIRE(tensor);
      CHECK(tensor->part == i);
      REQUIRE(tensor->data.size() == 16);
      CHECK(*reinterpret_cast<const float*>(tensor->data.data()) == float(i));
    }
  }
}

TEST_CASE("a moved ModelFile keeps its views") {
  const TempDir dir;
  for (int part = 0; part < 2; ++part) write_part(part_path(dir, part, 2), part, 2);
  gguf::ModelFile first(part_path(dir, 0, 2));
  const gguf::ModelFile second = std::move(first);
  CHECK(second.header().find_tensor("t1")->name == "t1");
  CHECK(*reinterpret_cast<const float*>(second.header().find_tensor("t1")->data.data()) == 1.0f);
}

TEST_CASE("a broken split set is named") {
  const TempDir dir;
  const auto first = part_path(dir, 0, 3), second = part_path(dir, 1, 3), third = part_path(dir, 2, 3);
  const auto fresh = [&] {
    for (int part = 0; part < 3; ++part) write_part(part_path(dir, part, 3), part, 3);
  };
  fresh();
  CHECK(open_message(first) == "");
  CHECK_THAT(open_message(second),
             Contains("part 2 of 3") && Contains("give the first part") && Contains("m-00001-of-00003.gguf'"));

  std::filesystem::remove(third);
  CHECK_THAT(open_message(first), Contains("part 3 of 3 is missing") && Contains("m-00003-of-00003.gguf"));
  std::filesystem::copy_file(second, third);
  CHECK_THAT(open_message(first), Contains("named part 3 of 3") && Contains("says that it is part 2 of 3"));

  fresh();
  write_part(second, 1, 3, "t0");
  CHECK_THAT(open_message(first), Contains("m-00002-of-00003.gguf") && Contains("'t0' is in an earlier part too"));
  write_part(second, 1, 4);
  CHECK_THAT(open_message(first), Contains("says that it is part 2 of 4"));
  write_part(second, 1, 3, nullptr, [](gguf::Writer& w) { w.set("general.architecture", "qwen2"); });
  CHECK_THAT(open_message(first), Contains("another model") && Contains("'qwen2'") && Contains("'llama'"));
  write_part(second, 1, 3, nullptr, {}, 9);
  CHECK_THAT(open_message(first), Contains("another model") && Contains("split.tensors.count is 9, but 3"));

  for (int part = 0; part < 3; ++part) write_part(part_path(dir, part, 3), part, 3, nullptr, {}, 5);
  CHECK_THAT(open_message(first), Contains("found 3 tensors in 3 parts, but split.tensors.count is 5"));
}

TEST_CASE("one part of a set under another name is named") {
  const TempDir dir;
  const auto path = dir.path / "joined.gguf";
  write_part(path, 0, 2);
  CHECK_THAT(open_message(path), Contains("part 1 of 2") && Contains("-00001-of-00002.gguf"));
  write_part(path, 1, 2);
  CHECK_THAT(open_message(path), Contains("part 2 of 2") && Contains("give the first part"));
  write_part(path, 2, 2);
  CHECK_THAT(open_message(path), Contains("joined.gguf") && Contains("found 2 and 2"));
  write_part(path, 0, 1, "t0");
  CHECK(open_message(path) == "");
}

TEST_CASE("what is no GGUF file is named with its path") {
  const TempDir dir;
  CHECK_THAT(open_message(dir.path), Contains("is a directory"));
  CHECK_THAT(open_message(dir.path / "absent.gguf"), Contains("absent.gguf") && Contains("No such file"));
  const auto path = dir.path / "x.gguf";
  std::ofstream(path).close();
  CHECK_THAT(open_message(path), Contains("x.gguf") && Contains("empty"));
  std::ofstream(path) << "GG";
  CHECK_THAT(open_message(path), Contains("x.gguf") && Contains("magic"));
}

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
