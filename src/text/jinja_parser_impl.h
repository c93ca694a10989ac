// The parser's class, shared by its two files: expressions (jinja_parser_expr.cpp) and statements (jinja_parser.cpp).
#pragma once
#include <initializer_list>

#include "base/check.h"
#include "text/jinja_parser.h"

namespace quern::jinja {

class Parser {
 public:
  explicit Parser(Template& out) : out_(out), tokens_(out.tokens.tokens) {}
  Block parse_template();

 private:
  static constexpr uint32_t kMaxNesting = 120;  ///< of brackets, tags and operators inside each other
  static constexpr uint32_t kMaxHeight = 300;   ///< of an expression's tree

  struct Nesting {
    explicit Nesting(Parser& owner) : parser(owner) {
      if (++parser.depth_ > kMaxNesting)
        parser.fail_at(parser.peek().line, "nested more than {} levels deep", kMaxNesting);
    }
    ~Nesting() { --parser.depth_; }
    Parser& parser;
  };

  template <typename... Args>
  [[noreturn]] void fail_at(uint32_t line, fmt::format_string<Args...> format, Args&&... args) const {
    throw_error(ErrorKind::kModel, "chat template, line {}: {}", line,
                fmt::format(format, std::forward<Args>(args)...));
  }
  [[noreturn]] void fail_expected(std::string_view what) const;

  const Token& peek(size_t ahead = 0) const { return tokens_[std::min(pos_ + ahead, tokens_.size() - 1)]; }
  const Token& next() { return tokens_[pos_ + 1 < tokens_.size() ? pos_++ : pos_]; }
  bool is_op(std::string_view op) const { return peek().type == TokenType::Operator && peek().text == op; }
  bool is_name(std::string_view name) const { return peek().type == TokenType::Name && peek().text == name; }
  bool skip_op(std::string_view op);
  bool skip_name(std::string_view name);
  void expect_op(std::string_view op);
  void expect_name(std::string_view name);
  const Token& expect_identifier(std::string_view what);
  Symbol symbol(std::string_view name);

  // Statements.
  Block parse_block(std::initializer_list<std::string_view> ends, std::string_view opener, uint32_t line);
  StmtPtr parse_statement();
  StmtPtr parse_print();
  StmtPtr parse_if();
  StmtPtr parse_for();
  StmtPtr parse_set();
  StmtPtr parse_macro();
  StmtPtr parse_call_block();
  StmtPtr parse_filter_block();
  StmtPtr parse_with();
  StmtPtr parse_scoped(std::string_view end);
  StmtPtr parse_loop_control(StmtKind kind);
  void parse_signature(MacroDef& macro);
  void end_tag();
  StmtPtr make_stmt(StmtKind kind) const;
  Block parse_macro_body(MacroDef& macro, std::string_view end, std::string_view opener, uint32_t line);

  // Expressions.
  ExprPtr parse_expression(bool with_cond = true);
  ExprPtr parse_cond();
  ExprPtr parse_or();
  ExprPtr parse_and();
  ExprPtr parse_not();
  ExprPtr parse_compare();
  ExprPtr parse_sum();
  ExprPtr parse_concat();
  ExprPtr parse_product();
  ExprPtr parse_power();
  ExprPtr parse_unary(bool with_filter = true);
  ExprPtr parse_primary();
  ExprPtr parse_name_or_constant();
  ExprPtr parse_string();
  ExprPtr parse_number();
  ExprPtr parse_list();
  ExprPtr parse_dict();
  ExprPtr parse_tuple(bool with_cond, bool in_parentheses, std::string_view end_name = {});
  ExprPtr parse_postfix(ExprPtr node);
  ExprPtr parse_filters(ExprPtr node, bool tests);
  ExprPtr parse_filter(ExprPtr node);
  ExprPtr parse_test(ExprPtr node);
  ExprPtr parse_subscript(ExprPtr node);
  ExprPtr parse_subscript_item();
  ExprPtr parse_target(bool with_namespace);
  ExprPtr parse_single_target(bool with_namespace);
  void parse_arguments(Expr& call);
  bool at_expression_end(std::string_view end_name) const;

  ExprPtr make_expr(ExprKind kind) const;
  /// Takes over the heights of the children once they are all there.
  ExprPtr finish(ExprPtr node) const;
  ExprPtr binary(ExprKind kind, Op op, ExprPtr left, ExprPtr right) const;

  Template& out_;
  const std::vector<Token>& tokens_;
  size_t pos_ = 0;
  uint32_t depth_ = 0;
  uint32_t if_depth_ = 0;    ///< inside {% if %} or an inline if, an unknown filter is an error only when it is reached
  uint32_t loop_depth_ = 0;  ///< break and continue need a loop
};

}  // namespace quern::jinja
