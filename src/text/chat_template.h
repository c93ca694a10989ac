// A chat template: the Jinja that GGUF files carry, run by our own bounded interpreter. Lexer, parser and evaluator are
// apart (jinja_lexer, jinja_parser, jinja_eval); this is what the rest of the program sees.
#pragma once
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quern/error.h"

namespace quern {

struct TemplateInputs {
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();  ///< [{"role","content",…}]
  nlohmann::ordered_json tools;                                       ///< null: defined and none
  nlohmann::ordered_json extra = nlohmann::ordered_json::object();    ///< further variables (enable_thinking, …)
  bool add_generation_prompt = true;
  std::string bos_token, eos_token;
  std::optional<std::tm> now;  ///< for strftime_now; the clock when absent
};

/// A stretch of a rendered prompt. Control tokens count only in what the template itself wrote.
struct RenderedPiece {
  std::string text;
  bool from_user;  ///< came from messages, tools or extra: to be tokenized as plain text
  bool operator==(const RenderedPiece&) const = default;
};

/// The template called raise_exception: it refuses these messages. what() holds its message and the line.
class TemplateRefusal : public Error {
 public:
  TemplateRefusal(const std::string& what, std::string message)
      : Error(ErrorKind::kRuntime, what), message_(std::move(message)) {}
  const std::string& template_message() const { return message_; }

 private:
  std::string message_;
};

class ChatTemplate {
 public:
  /// Parses. @throws Error(kModel) naming the line and the construct that is not known or not closed.
  explicit ChatTemplate(std::string_view source);
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  /// Renders. Bounded in steps, depth and output size.
  /// @throws TemplateRefusal (raise_exception), Error(kRuntime) with what went wrong and the line.
  std::string render(const TemplateInputs& inputs) const;

  /// The same text, cut where its origin changes; no two neighbours are of the same origin and none is empty. A
  /// message's role counts as the template's own as long as it is a plain word, since templates build control tokens
  /// around it.
  std::vector<RenderedPiece> render_pieces(const TemplateInputs& inputs) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quern
