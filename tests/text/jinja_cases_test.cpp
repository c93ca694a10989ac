// The interpreter against jinja2 itself, one construct at a time: tests/text/jinja_cases.json holds small templates
// with what jinja2 makes of them (written by tools/dev/make_jinja_cases.py).
#include <catch2/catch.hpp>
#include <fstream>

#include "text/chat_template.h"

using nlohmann::ordered_json;

namespace {

void check_case(const ordered_json& test_case, const quern::TemplateInputs& inputs) {
  const std::string source = test_case["template"].get<std::string>();
  INFO(source);
  if (test_case.contains("expected")) {
    CHECK(quern::ChatTemplate(source).render(inputs) == test_case["expected"].get<std::string>());
    return;
  }
  const std::string error = test_case["error"];
  INFO(error);
  const bool syntax = error == "TemplateSyntaxError" || error == "TemplateAssertionError" || error == "SyntaxError";
  try {
    const quern::ChatTemplate parsed(source);
    if (!syntax) {
      const std::string text = parsed.render(inputs);
      FAIL_CHECK("rendered: " << text);
    } else {
      FAIL_CHECK("parsed");
    }
  } catch (const quern::Error& caught) {
    CHECK((caught.kind() == quern::ErrorKind::kModel) == syntax);
    CHECK(std::string(caught.what()).find("line 1") != std::string::npos);
  }
}

}  // namespace

TEST_CASE("small templates render as in jinja2", "[template][jinja]") {
  std::ifstream stream(QUERN_SOURCE "/tests/text/jinja_cases.json");
  const ordered_json file = ordered_json::parse(stream);
  quern::TemplateInputs inputs;
  inputs.extra = file["variables"];
  REQUIRE(file["cases"].size() > 250);
  for (const ordered_json& test_case : file["cases"]) check_case(test_case, inputs);
}
