// A chat template: the Jinja that GGUF files carry, run by our own bounded interpreter. Lexer, parser and evaluator are apart
// (jinja_lexer, jinja_parser, jinja_eval); this is what the rest of the program sees.
#pragma once
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace quern {

struct TemplateInputs {
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();  ///< [{"role","content",…}]
  nlohmann::ordered_json tools;                                       ///< null: defined and none
  nlohmann::ordered_json extra = nlohmann::ordered_json::object();    ///< further variables (enable_thinking, …)
  bool add_generation_prompt = true;
  std::string bos_token, eos_token;
  std::optional<std::tm> now;                                         ///< for strftime_now; the clock when absent
};

class ChatTemplate {
 public:
  /// Parses. @throws Error(kModel) naming the line and the construct that is not known or not closed.
  explicit ChatTemplate(std::string_view source);
  ChatTemplate(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  /// Renders. Bounded in steps, depth and output size.
  /// @throws Error(kRuntime) with the template's own message (raise_exception) or what went wrong and the line.
  std::string render(const TemplateInputs& inputs) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quern
