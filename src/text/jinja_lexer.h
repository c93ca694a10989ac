// Template source to tokens, as jinja2 does with trim_blocks and lstrip_blocks: white space control is decided here, so
// that the parser sees only text that is printed. Knows nothing of grammar.
#pragma once
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace quern::jinja {

enum class TokenType : uint8_t {
  Data,
  BlockBegin,
  BlockEnd,
  VarBegin,
  VarEnd,
  Name,
  String,
  Integer,
  Float,
  Operator,
  End
};

struct Token {
  TokenType type;
  uint32_t line;
  std::string_view text;  ///< data, name, decoded string, digits, or operator
};

/// Stays where it is: tokens and everything parsed from them point into it.
struct TokenList {
  TokenList() = default;
  TokenList(const TokenList&) = delete;

  std::string source;               ///< line ends normalized; the views point into it
  std::deque<std::string> decoded;  ///< strings with escapes; views point into them, too
  std::vector<Token> tokens;        ///< ends with End
};

/// @throws Error(kModel) naming the line: a tag, comment or string that is not closed, a character that means nothing.
void tokenize(std::string_view source, TokenList& list);

}  // namespace quern::jinja
