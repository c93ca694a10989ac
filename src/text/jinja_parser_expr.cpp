// Expressions, by recursive descent along jinja2's precedence: inline if, or, and, not, comparisons, + -, ~, * / // %,
// **, unary signs, postfix (attribute, item, call), filters and tests.
#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "text/jinja_builtins.h"
#include "text/jinja_parser_impl.h"

namespace quern::jinja {

ExprPtr Parser::make_expr(ExprKind kind) const {
  auto node = std::make_unique<Expr>();
  node->kind = kind;
  node->line = peek().line;
  return node;
}

ExprPtr Parser::finish(ExprPtr node) const {
  uint32_t tallest = 0;
  const auto look = [&](const ExprPtr& child) { tallest = std::max(tallest, child ? child->height : 0); };
  for (const ExprPtr& child : node->items) look(child);
  for (const NamedArg& arg : node->named) look(arg.value);
  look(node->star);
  look(node->star_star);
  node->height = tallest + 1;
  if (node->height > kMaxHeight) fail_at(node->line, "an expression of more than {} levels", kMaxHeight);
  return node;
}

ExprPtr Parser::binary(ExprKind kind, Op op, ExprPtr left, ExprPtr right) const {
  auto node = make_expr(kind);
  node->line = left->line;
  node->op = op;
  node->items.push_back(std::move(left));
  node->items.push_back(std::move(right));
  return finish(std::move(node));
}

ExprPtr Parser::parse_expression(bool with_cond) {
  const Nesting nesting(*this);
  return with_cond ? parse_cond() : parse_or();
}

ExprPtr Parser::parse_cond() {
  ExprPtr value = parse_or();
  while (is_name("if")) {
    auto node = make_expr(ExprKind::Cond);
    next();
    ++if_depth_;
    node->items.push_back(parse_or());
    node->items.push_back(std::move(value));
    node->items.push_back(skip_name("else") ? parse_expression() : nullptr);
    --if_depth_;
    value = finish(std::move(node));
  }
  return value;
}

ExprPtr Parser::parse_or() {
  ExprPtr left = parse_and();
  while (skip_name("or")) left = binary(ExprKind::Or, Op::Add, std::move(left), parse_and());
  return left;
}

ExprPtr Parser::parse_and() {
  ExprPtr left = parse_not();
  while (skip_name("and")) left = binary(ExprKind::And, Op::Add, std::move(left), parse_not());
  return left;
}

ExprPtr Parser::parse_not() {
  if (!is_name("not")) return parse_compare();
  const Nesting nesting(*this);
  auto node = make_expr(ExprKind::Not);
  next();
  node->items.push_back(parse_not());
  return finish(std::move(node));
}

ExprPtr Parser::parse_compare() {
  ExprPtr left = parse_sum();
  auto node = make_expr(ExprKind::Compare);
  node->line = left->line;
  while (true) {
    constexpr std::pair<std::string_view, Op> kOps[] = {{"==", Op::Eq}, {"!=", Op::Ne}, {"<=", Op::Le},
                                                        {">=", Op::Ge}, {"<", Op::Lt},  {">", Op::Gt}};
    std::optional<Op> op;
    for (const auto& [text, kind] : kOps) {
      if (!op && skip_op(text)) op = kind;
    }
    if (!op && skip_name("in")) op = Op::In;
    if (!op && is_name("not") && peek(1).type == TokenType::Name && peek(1).text == "in") {
      next();
      next();
      op = Op::NotIn;
    }
    if (!op) break;
    if (node->items.empty()) node->items.push_back(std::move(left));
    node->ops.push_back(*op);
    node->items.push_back(parse_sum());
  }
  return node->items.empty() ? std::move(left) : finish(std::move(node));
}

ExprPtr Parser::parse_sum() {
  ExprPtr left = parse_concat();
  while (is_op("+") || is_op("-")) {
    const Op op = next().text == "+" ? Op::Add : Op::Sub;
    left = binary(ExprKind::Binary, op, std::move(left), parse_concat());
  }
  return left;
}

ExprPtr Parser::parse_concat() {
  ExprPtr first = parse_product();
  if (!is_op("~")) return first;
  auto node = make_expr(ExprKind::Concat);
  node->items.push_back(std::move(first));
  while (skip_op("~")) node->items.push_back(parse_product());
  return finish(std::move(node));
}

ExprPtr Parser::parse_product() {
  ExprPtr left = parse_power();
  while (true) {
    constexpr std::pair<std::string_view, Op> kOps[] = {
        {"*", Op::Mul}, {"/", Op::Div}, {"//", Op::FloorDiv}, {"%", Op::Mod}};
    const auto it = std::find_if(std::begin(kOps), std::end(kOps), [&](const auto& op) { return is_op(op.first); });
    if (it == std::end(kOps)) return left;
    next();
    left = binary(ExprKind::Binary, it->second, std::move(left), parse_power());
  }
}

ExprPtr Parser::parse_power() {
  ExprPtr left = parse_unary();
  while (skip_op("**")) left = binary(ExprKind::Binary, Op::Pow, std::move(left), parse_unary());
  return left;
}

ExprPtr Parser::parse_unary(bool with_filter) {
  ExprPtr node;
  if (is_op("-") || is_op("+")) {
    const Nesting nesting(*this);
    node = make_expr(ExprKind::Unary);
    node->op = next().text == "-" ? Op::Neg : Op::Pos;
    node->items.push_back(parse_unary(false));
    node = finish(std::move(node));
  } else {
    node = parse_primary();
  }
  node = parse_postfix(std::move(node));
  return with_filter ? parse_filters(std::move(node), true) : std::move(node);
}

ExprPtr Parser::parse_primary() {
  const Token& token = peek();
  switch (token.type) {
    case TokenType::Name:
      return parse_name_or_constant();
    case TokenType::String:
      return parse_string();
    case TokenType::Integer:
    case TokenType::Float:
      return parse_number();
    default:
      break;
  }
  if (skip_op("(")) {
    ExprPtr node = parse_tuple(true, true);
    expect_op(")");
    return node;
  }
  if (is_op("[")) return parse_list();
  if (is_op("{")) return parse_dict();
  fail_expected("an expression");
}

ExprPtr Parser::parse_name_or_constant() {
  auto node = make_expr(ExprKind::Const);
  const std::string_view name = next().text;
  if (name == "true" || name == "True") {
    node->constant = Value::of(true);
  } else if (name == "false" || name == "False") {
    node->constant = Value::of(false);
  } else if (name == "none" || name == "None") {
    node->constant = Value::none();
  } else {
    node->kind = ExprKind::Name;
    node->symbol = symbol(name);
    node->text.bytes = name;
  }
  return node;
}

ExprPtr Parser::parse_string() {
  auto node = make_expr(ExprKind::Const);
  node->text.bytes = next().text;
  if (peek().type == TokenType::String) {  // neighbouring strings are one
    std::string joined(node->text.bytes);
    while (peek().type == TokenType::String) joined += next().text;
    out_.tokens.decoded.push_back(std::move(joined));
    node->text.bytes = out_.tokens.decoded.back();
  }
  node->constant = Value::of(&node->text);
  return node;
}

ExprPtr Parser::parse_number() {
  auto node = make_expr(ExprKind::Const);
  const Token& token = next();
  std::string digits(token.text);
  std::erase(digits, '_');
  if (token.type == TokenType::Float) {
    node->constant = Value::of(std::strtod(digits.c_str(), nullptr));
    return node;
  }
  int base = 10;
  if (digits.size() > 1 && digits[0] == '0' && digits[1] > '9') {
    const char letter = char(digits[1] | 0x20);
    base = letter == 'x' ? 16 : letter == 'o' ? 8 : 2;
    digits.erase(0, 2);
  }
  int64_t value = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (result.ec == std::errc::result_out_of_range)
    fail_at(token.line, "the number {} does not fit in 64 bits", token.text.substr(0, 40));
  if (result.ec != std::errc() || result.ptr != digits.data() + digits.size())
    fail_at(token.line, "'{}' is not a number", token.text.substr(0, 40));
  node->constant = Value::of(value);
  return node;
}

ExprPtr Parser::parse_list() {
  auto node = make_expr(ExprKind::List);
  expect_op("[");
  while (!is_op("]")) {
    if (!node->items.empty()) expect_op(",");
    if (is_op("]")) break;
    node->items.push_back(parse_expression());
  }
  expect_op("]");
  return finish(std::move(node));
}

ExprPtr Parser::parse_dict() {
  auto node = make_expr(ExprKind::Dict);
  expect_op("{");
  while (!is_op("}")) {
    if (!node->items.empty()) expect_op(",");
    if (is_op("}")) break;
    node->items.push_back(parse_expression());
    expect_op(":");
    node->items.push_back(parse_expression());
  }
  expect_op("}");
  return finish(std::move(node));
}

bool Parser::at_expression_end(std::string_view end_name) const {
  const TokenType type = peek().type;
  if (type == TokenType::VarEnd || type == TokenType::BlockEnd || type == TokenType::End || is_op(")")) return true;
  return !end_name.empty() && is_name(end_name);
}

/// One expression, or several with commas as a tuple.
ExprPtr Parser::parse_tuple(bool with_cond, bool in_parentheses, std::string_view end_name) {
  auto node = make_expr(ExprKind::Tuple);
  bool is_tuple = false;
  while (!at_expression_end(end_name)) {
    node->items.push_back(parse_expression(with_cond));
    if (!skip_op(",")) break;
    is_tuple = true;
  }
  if (!is_tuple) {
    if (!node->items.empty()) return std::move(node->items[0]);
    if (!in_parentheses) fail_expected("an expression");
  }
  return finish(std::move(node));
}

ExprPtr Parser::parse_postfix(ExprPtr node) {
  while (true) {
    if (is_op(".") || is_op("[")) {
      node = parse_subscript(std::move(node));
    } else if (is_op("(")) {
      auto call = make_expr(ExprKind::Call);
      call->items.push_back(std::move(node));
      parse_arguments(*call);
      node = finish(std::move(call));
    } else {
      return node;
    }
  }
}

ExprPtr Parser::parse_subscript(ExprPtr value) {
  if (skip_op(".")) {
    if (peek().type == TokenType::Integer) return binary(ExprKind::Item, Op::Add, std::move(value), parse_number());
    auto node = make_expr(ExprKind::Attribute);
    node->text.bytes = expect_identifier("the name of an attribute").text;
    node->items.push_back(std::move(value));
    return finish(std::move(node));
  }
  expect_op("[");
  ExprPtr key = parse_subscript_item();
  if (is_op(",")) {
    auto tuple = make_expr(ExprKind::Tuple);
    tuple->items.push_back(std::move(key));
    while (skip_op(",")) {
      if (!is_op("]")) tuple->items.push_back(parse_subscript_item());
    }
    key = finish(std::move(tuple));
  }
  expect_op("]");
  return binary(ExprKind::Item, Op::Add, std::move(value), std::move(key));
}

/// An index, or a slice with any of its three parts left out.
ExprPtr Parser::parse_subscript_item() {
  auto slice = make_expr(ExprKind::Slice);
  slice->items.resize(3);
  bool is_slice = false;
  for (size_t part = 0; part < 3; ++part) {
    if (!is_op(":") && !is_op("]") && !is_op(",")) slice->items[part] = parse_expression();
    if (part == 2 || !skip_op(":")) break;
    is_slice = true;
  }
  if (is_slice) return finish(std::move(slice));
  if (!slice->items[0]) fail_expected("an index");
  return std::move(slice->items[0]);
}

void Parser::parse_arguments(Expr& call) {
  expect_op("(");
  bool first = true;
  while (!is_op(")")) {
    if (!first) expect_op(",");
    if (is_op(")")) break;
    first = false;
    if (skip_op("*")) {
      if (call.star) fail_at(call.line, "'*' is given twice in one call");
      call.star = parse_expression();
    } else if (skip_op("**")) {
      if (call.star_star) fail_at(call.line, "'**' is given twice in one call");
      call.star_star = parse_expression();
    } else if (peek().type == TokenType::Name && peek(1).type == TokenType::Operator && peek(1).text == "=") {
      NamedArg arg;
      arg.name.bytes = next().text;
      next();
      arg.value = parse_expression();
      call.named.push_back(std::move(arg));
    } else {
      if (!call.named.empty() || call.star_star)
        fail_at(peek().line, "a positional argument follows a keyword argument");
      call.items.push_back(parse_expression());
    }
  }
  expect_op(")");
}

ExprPtr Parser::parse_filters(ExprPtr node, bool tests) {
  while (true) {
    if (skip_op("|")) {
      node = parse_filter(std::move(node));
    } else if (tests && skip_name("is")) {
      node = parse_test(std::move(node));
    } else if (tests && is_op("(")) {
      auto call = make_expr(ExprKind::Call);
      call->items.push_back(std::move(node));
      parse_arguments(*call);
      node = finish(std::move(call));
    } else {
      return node;
    }
  }
}

ExprPtr Parser::parse_filter(ExprPtr value) {
  auto node = make_expr(ExprKind::Filter);
  const Token& name = expect_identifier("the name of a filter");
  node->text.bytes = name.text;
  node->builtin = find_filter(name.text);
  if (node->builtin == nullptr && if_depth_ == 0) fail_at(name.line, "the filter '{}' is not known", name.text);
  node->items.push_back(std::move(value));
  if (is_op("(")) parse_arguments(*node);
  return finish(std::move(node));
}

ExprPtr Parser::parse_test(ExprPtr value) {
  const Nesting nesting(*this);
  auto node = make_expr(ExprKind::Test);
  const bool negated = skip_name("not");
  const Token& name = expect_identifier("the name of a test");
  node->text.bytes = name.text;
  node->builtin = find_test(name.text);
  if (node->builtin == nullptr && if_depth_ == 0) fail_at(name.line, "the test '{}' is not known", name.text);
  node->items.push_back(std::move(value));
  const Token& token = peek();
  const bool literal =
      token.type == TokenType::String || token.type == TokenType::Integer || token.type == TokenType::Float;
  const bool word = token.type == TokenType::Name && token.text != "else" && token.text != "or" &&
                    token.text != "and" && token.text != "if" && token.text != "in" && token.text != "not" &&
                    token.text != "is";
  if (is_op("(")) {
    parse_arguments(*node);
  } else if (literal || word || is_op("[") || is_op("{")) {
    node->items.push_back(parse_postfix(parse_primary()));
  } else if (is_name("is")) {
    fail_at(token.line, "tests cannot be chained with 'is'");
  }
  node = finish(std::move(node));
  if (!negated) return node;
  auto inverse = make_expr(ExprKind::Not);
  inverse->items.push_back(std::move(node));
  return finish(std::move(inverse));
}

ExprPtr Parser::parse_single_target(bool with_namespace) {
  const Nesting nesting(*this);
  if (skip_op("(")) {
    ExprPtr node = parse_target(with_namespace);
    expect_op(")");
    return node;
  }
  const Token& name = expect_identifier("the name of a variable");
  constexpr std::string_view kReserved[] = {"true", "false", "none", "True", "False", "None"};
  if (std::find(std::begin(kReserved), std::end(kReserved), name.text) != std::end(kReserved))
    fail_at(name.line, "cannot assign to '{}'", name.text);
  auto node = make_expr(ExprKind::Name);
  node->symbol = symbol(name.text);
  node->text.bytes = name.text;
  if (!with_namespace || !skip_op(".")) return node;
  auto attribute = make_expr(ExprKind::Attribute);
  attribute->text.bytes = expect_identifier("the name of an attribute").text;
  attribute->items.push_back(std::move(node));
  return finish(std::move(attribute));
}

ExprPtr Parser::parse_target(bool with_namespace) {
  ExprPtr first = parse_single_target(with_namespace);
  if (!is_op(",")) return first;
  auto tuple = make_expr(ExprKind::Tuple);
  tuple->items.push_back(std::move(first));
  while (skip_op(",")) {
    if (peek().type != TokenType::Name && !is_op("(")) break;
    if (is_name("in")) break;
    tuple->items.push_back(parse_single_target(with_namespace));
  }
  return finish(std::move(tuple));
}

}  // namespace quern::jinja
