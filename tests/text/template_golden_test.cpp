// Every chat template of the reference set renders as Hugging Face transformers renders it (jinja2 3.1.6), character
// for character; templates that refuse their messages do so with the same words.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "text/chat_template.h"

namespace fs = std::filesystem;
using nlohmann::ordered_json;

namespace {

std::tm parse_time(const std::string& iso) {
  std::tm tm{};
  REQUIRE(strptime(iso.c_str(), "%Y-%m-%dT%H:%M:%S", &tm) != nullptr);
  return tm;
}

quern::TemplateInputs make_inputs(const ordered_json& file, const ordered_json& test_case) {
  quern::TemplateInputs inputs;
  inputs.messages = test_case["messages"];
  if (test_case.contains("tools")) inputs.tools = test_case["tools"];
  if (test_case.contains("extra") && test_case["extra"].is_object()) inputs.extra = test_case["extra"];
  inputs.add_generation_prompt = test_case.value("add_generation_prompt", false);
  if (file["bos_token"].is_string()) inputs.bos_token = file["bos_token"];
  if (file["eos_token"].is_string()) inputs.eos_token = file["eos_token"];
  if (file.contains("now") && file["now"].is_string()) inputs.now = parse_time(file["now"]);
  return inputs;
}

std::string joined(const std::vector<quern::RenderedPiece>& pieces) {
  std::string out;
  for (const auto& piece : pieces) out += piece.text;
  return out;
}

void check_case(const quern::ChatTemplate& chat_template, const ordered_json& file, const ordered_json& test_case) {
  const quern::TemplateInputs inputs = make_inputs(file, test_case);
  if (test_case.contains("expected")) {
    CHECK(chat_template.render(inputs) == test_case["expected"].get<std::string>());
    CHECK(joined(chat_template.render_pieces(inputs)) == test_case["expected"].get<std::string>());
  } else if (test_case["error_kind"] == "raise_exception") {
    try {
      chat_template.render(inputs);
      FAIL_CHECK("rendered, but the reference refuses");
    } catch (const quern::TemplateRefusal& refusal) {
      CHECK(refusal.template_message() == test_case["error"].get<std::string>());
    }
  } else {  // a Python error: being more lenient is not wrong, but no other kind of exception may escape
    try {
      chat_template.render(inputs);
    } catch (const quern::Error&) {
    }
  }
}

}  // namespace

TEST_CASE("golden chat templates", "[template][golden]") {
  size_t n_files = 0, n_cases = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(QUERN_GOLDEN) / "templates")) {
    if (entry.path().extension() != ".json") continue;
    std::ifstream stream(entry.path());
    const ordered_json file = ordered_json::parse(stream);
    if (!file.contains("template")) continue;
    ++n_files;
    INFO(entry.path().filename().string());
    const quern::ChatTemplate chat_template(file["template"].get<std::string>());
    for (const auto& test_case : file["cases"]) {
      ++n_cases;
      INFO(test_case["name"].get<std::string>());
      check_case(chat_template, file, test_case);
    }
  }
  CHECK(n_files == 47);
  CHECK(n_cases == 1069);
}
