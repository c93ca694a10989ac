// The ways for a template to be bad: each gives one Error that says what and where, soon and in bounded memory.
#include <catch2/catch.hpp>
#include <chrono>

#include "text/chat_template.h"

using Catch::Matchers::Contains;
using quern::ChatTemplate;
using quern::Error;
using quern::ErrorKind;

namespace {

std::string times(size_t n, std::string_view text) {
  std::string out;
  for (size_t i = 0; i < n; ++i) out += text;
  return out;
}

std::string failure(const std::string& source, ErrorKind kind, const quern::TemplateInputs& inputs = {}) {
  const auto start = std::chrono::steady_clock::now();
  std::string message;
  try {
    const ChatTemplate parsed(source);
    parsed.render(inputs);
    FAIL_CHECK("accepted: " << source.substr(0, 80));
  } catch (const Error& error) {
    CHECK(error.kind() == kind);
    message = error.what();
  }
  // A second on a quiet machine; sanitizers and neighbours get twenty times that.
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
  return message;
}

std::string bad(const std::string& source) {
  return failure(source, ErrorKind::kModel);
}
std::string fails(const std::string& source) {
  return failure(source, ErrorKind::kRuntime);
}
std::string render(const std::string& source) {
  return ChatTemplate(source).render({});
}

}  // namespace

TEST_CASE("what is not closed is named with its line", "[template]") {
  CHECK(bad("a\nb {% if x %}\n c") == "chat template, line 2: '{% if %}' is not closed by '{% endif %}'");
  CHECK(bad("\n\n{% for x in y %}{% if x %}{% endif %}") ==
        "chat template, line 3: '{% for %}' is not closed by '{% endfor %}'");
  CHECK(bad("\n{{ x") == "chat template, line 2: the tag '{{' is not closed by '}}'");
  CHECK(bad("\n{% if x") == "chat template, line 2: the tag '{%' is not closed by '%}'");
  CHECK(bad("\n\n{# x") == "chat template, line 3: the comment '{#' is not closed");
  CHECK(bad("{{ 'abc }}") == "chat template, line 1: the string that begins with ' is not closed");
  CHECK_THAT(bad("{% raw %}{{ x }}"), Contains("'{% raw %}' is not closed by '{% endraw %}'"));
  CHECK_THAT(bad("{% macro m() %}"), Contains("'{% macro %}' is not closed"));
  CHECK_THAT(bad("{% generation %}"), Contains("'{% generation %}' is not closed by '{% endgeneration %}'"));
  CHECK_THAT(bad("{{ (1 }}"), Contains("line 1"));
  CHECK_THAT(bad("{{ [1) }}"), Contains("unexpected ')'"));
}

TEST_CASE("what is not known is named with its line", "[template]") {
  CHECK(bad("\n{% nope %}") == "chat template, line 2: the tag '{% nope %}' is not known");
  CHECK(bad("\n{{ x | nope }}") == "chat template, line 2: the filter 'nope' is not known");
  CHECK(bad("\n\n{{ x is nope }}") == "chat template, line 3: the test 'nope' is not known");
  CHECK_THAT(bad("{% include 'x' %}"), Contains("'{% include %}' is not known"));
  CHECK_THAT(bad("{% for x in y recursive %}{% endfor %}"), Contains("recursive loops are not supported"));
  CHECK_THAT(bad("{% break %}"), Contains("'break' stands outside of a loop"));
  CHECK_THAT(bad("{% for x in y %}{% macro m() %}{% continue %}{% endmacro %}{% endfor %}"),
             Contains("outside of a loop"));
  CHECK_THAT(bad("{% endif %}"), Contains("closes nothing"));
  // Where it is never reached, it does no harm; where it is, the line is said.
  CHECK(render("{% if false %}{{ 1 | nope }}{% endif %}ok") == "ok");
  CHECK(fails("{% if true %}\n{{ 1 | nope }}{% endif %}") == "chat template, line 2: the filter 'nope' is not known");
  CHECK(fails("\n{{ f(1) }}") == "chat template, line 2: 'f' is undefined");
  CHECK(fails("\n{{ {}.a.b }}") == "chat template, line 2: 'dict object' has no attribute 'a'");
}

TEST_CASE("a refusal carries the template's own message", "[template]") {
  const ChatTemplate refuses("\n{{ raise_exception('System role not supported') }}");
  try {
    refuses.render({});
    FAIL("rendered");
  } catch (const quern::TemplateRefusal& refusal) {
    CHECK(refusal.template_message() == "System role not supported");
    CHECK(std::string(refusal.what()) == "the chat template refuses: System role not supported (template line 2)");
  }
}

TEST_CASE("loops for ever are stopped", "[template]") {
  CHECK_THAT(fails("{% for i in range(10**9) %}{% endfor %}"), Contains("range() is too big"));
  const std::string many = "{% for a in range(100000) %}";
  CHECK_THAT(fails(many + many + "{% endfor %}{% endfor %}"), Contains("loops for too long"));
  CHECK_THAT(fails(many + many + "x{% endfor %}{% endfor %}"), Contains("loops for too long"));
  CHECK_THAT(fails(many + "{% set x = range(100000) | list %}{% endfor %}"), Contains("stopped"));
  CHECK_THAT(fails("{% set l = [1] %}{% for x in range(100) %}{% set _ = l.extend(l) %}{% endfor %}"),
             Contains("stopped"));
  CHECK_THAT(fails("{% set ns = namespace(s='ab') %}{% for x in range(100) %}{% set ns.s = ns.s + ns.s %}{% endfor %}"),
             Contains("stopped"));
  CHECK_THAT(fails("{% set ns = namespace(s='ab') %}" + many + "{% set ns.s = ns.s ~ 'x' * 1000 %}{% endfor %}"),
             Contains("stopped"));
  CHECK_THAT(fails("{% set s = 'a' * 60000000 %}" + many + "{% set x = 'b' in s %}{% endfor %}"), Contains("stopped"));
  CHECK_THAT(fails("{% set s = 'a' * 60000000 %}" + many + "{% set x = s == s ~ '' %}{% endfor %}"),
             Contains("stopped"));
}

TEST_CASE("sizes are bounded before they are made", "[template]") {
  CHECK_THAT(fails("{{ 'abc' * 10**12 }}"), Contains("stopped"));
  CHECK_THAT(fails("{{ [1] * 10**12 }}"), Contains("stopped"));
  CHECK_THAT(fails("{{ 'a' * 9223372036854775807 }}"), Contains("stopped"));
  CHECK_THAT(fails("{{ 'a'.ljust(10**10) }}"), Contains("stopped"));
  CHECK_THAT(fails("{{ '%999999999d' % 1 }}"), Contains("at most"));
  CHECK_THAT(fails("{{ '{:>9999999999}'.format(1) }}"), Contains("at most"));
  CHECK_THAT(fails("{{ 'x' | indent(10**10) }}"), Contains("stopped"));
  CHECK_THAT(fails("{{ [[1]] | tojson(indent=10**10) }}"), Contains("stopped"));
  CHECK_THAT(fails("{{ 9223372036854775807 + 1 }}"), Contains("does not fit in 64 bits"));
  CHECK_THAT(fails("{{ 10 ** 30 }}"), Contains("does not fit in 64 bits"));
  CHECK_THAT(bad("{{ 99999999999999999999 }}"), Contains("does not fit in 64 bits"));
  CHECK_THAT(fails("{{ (-9223372036854775807 - 1) // -1 }}"), Contains("64 bits"));
  CHECK(render("{{ (-9223372036854775807 - 1) % -1 }}") == "0");
}

TEST_CASE("deep nesting does not reach the end of the stack", "[template]") {
  for (const size_t n : {1000u, 100'000u}) {
    CHECK_THAT(bad("{{ " + times(n, "(") + "1" + times(n, ")") + " }}"), Contains("nested more than"));
    CHECK_THAT(bad("{{ " + times(n, "[") + times(n, "]") + " }}"), Contains("nested more than"));
    CHECK_THAT(bad("{{ " + times(n, "not ") + "1 }}"), Contains("nested more than"));
    CHECK_THAT(bad("{{ " + times(n, "-") + "1 }}"), Contains("nested more than"));
    CHECK_THAT(bad("{{ " + times(n, "1 if 1 else ") + "1 }}"), Contains("nested more than"));
    CHECK_THAT(bad("{{ 1" + times(n, "+1") + " }}"), Contains("levels"));
    CHECK_THAT(bad("{{ x" + times(n, ".a") + " }}"), Contains("levels"));
    CHECK_THAT(bad("{{ x" + times(n, "|string") + " }}"), Contains("levels"));
    CHECK_THAT(bad("{{ x" + times(n, "()") + " }}"), Contains("levels"));
    CHECK_THAT(bad(times(n, "{% if 1 %}")), Contains("nested more than"));
    CHECK_THAT(bad("{% for " + times(n, "(") + "a"), Contains("line 1"));
  }
  CHECK(render("{{ '' ~ " + times(20'000, "'' ~ ") + "'x' }}") == "x");  // one node, however long
  CHECK(render("{% if 0 %}" + times(20'000, "{% elif 0 %}") + "{% else %}x{% endif %}") == "x");
  CHECK_THAT(fails("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"), Contains("does a macro call itself?"));
  CHECK_THAT(fails("{% macro m(f) %}{{ f(f) }}{% endmacro %}{{ m(m) }}"), Contains("does a macro call itself?"));
  const std::string nest =
      "{% set ns = namespace(l=[]) %}{% for i in range(10000) %}{% set ns.l = [ns.l] %}{% endfor %}";
  CHECK(render(nest) == "");
  CHECK_THAT(fails(nest + "{{ ns.l }}"), Contains("nested more than 200"));
  CHECK_THAT(fails(nest + "{{ ns.l | tojson }}"), Contains("nested more than 200"));
  CHECK_THAT(fails(nest + "{{ ns.l == [ns.l] }}"), Contains("nested more than 200"));
  CHECK_THAT(fails("{% set l = [] %}{% set _ = l.append(l) %}{{ l }}"), Contains("nested more than 200"));
  const std::string wide =
      "{% set ns = namespace(l=[1]) %}{% for i in range(100) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}";
  CHECK_THAT(fails(wide + wide + "{{ ns.l }}"), Contains("stopped"));
}

TEST_CASE("nested inputs are bounded, too", "[template]") {
  quern::TemplateInputs inputs;
  nlohmann::ordered_json deep = 1;
  for (int i = 0; i < 5000; ++i) deep = nlohmann::ordered_json::array({std::move(deep)});
  inputs.extra["x"] = std::move(deep);
  CHECK_THAT(failure("{{ x }}", ErrorKind::kRuntime, inputs), Contains("nested more than 200"));
}

TEST_CASE("a template of a mebibyte renders", "[template]") {
  const std::string text = times(1 << 16, "0123456789abcdef");
  CHECK(render(text) == text);
  CHECK(render(times(1 << 15, "{{ 'abcdefghijklmnopqrstuvw' }}\n")).size() == (1u << 15) * 24 - 1);
  CHECK(render(times(1 << 15, "{% if true %}x{% endif %}")) == times(1 << 15, "x"));
  CHECK_THAT(bad(times(1 << 20, "{")), Contains("line 1"));
  CHECK_THAT(bad(times(1 << 19, "{%")), Contains("line 1"));
  CHECK_THAT(bad(std::string(size_t{17} << 20, 'x')), Contains("at most"));
}

TEST_CASE("any bytes will do as a template", "[template]") {
  CHECK(render("\xff\xfe{{ '\xc3' }}\x80") == "\xff\xfe\xc3\x80");
  CHECK(render("{{ '\xff\xe6\x97'[::-1] | length }}") == "3");
  CHECK(render(std::string("a\0b{{ 1 }}", 10)) == std::string("a\0b1", 4));
  CHECK(render("") == "");
  CHECK(render("\n") == "");
}
