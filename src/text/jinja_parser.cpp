// Statements: what stands between {% and %}, and how blocks nest.
#include "text/jinja_parser.h"

#include <algorithm>
#include <utility>

#include "text/jinja_builtins.h"
#include "text/jinja_parser_impl.h"

namespace quern::jinja {

void parse(std::string_view source, Template& out) {
  tokenize(source, out.tokens);
  for (const std::string_view name : {"loop", "caller", "varargs", "kwargs"}) {
    out.numbers.emplace(name, Symbol(out.symbols.size()));
    out.symbols.push_back(name);
  }
  out.body = Parser(out).parse_template();
  out.tokens.tokens = {};
}

Symbol Parser::symbol(std::string_view name) {
  const auto [it, added] = out_.numbers.emplace(name, Symbol(out_.symbols.size()));
  if (added) out_.symbols.push_back(name);
  return it->second;
}

bool Parser::skip_op(std::string_view op) {
  if (!is_op(op)) return false;
  next();
  return true;
}

bool Parser::skip_name(std::string_view name) {
  if (!is_name(name)) return false;
  next();
  return true;
}

void Parser::fail_expected(std::string_view what) const {
  const Token& token = peek();
  if (token.type == TokenType::End) fail_at(token.line, "expected {}, found the end of the template", what);
  fail_at(token.line, "expected {}, found '{}'", what, token.text.substr(0, 40));
}

void Parser::expect_op(std::string_view op) {
  if (!skip_op(op)) fail_expected(fmt::format("'{}'", op));
}

void Parser::expect_name(std::string_view name) {
  if (!skip_name(name)) fail_expected(fmt::format("'{}'", name));
}

const Token& Parser::expect_identifier(std::string_view what) {
  if (peek().type != TokenType::Name) fail_expected(what);
  return next();
}

StmtPtr Parser::make_stmt(StmtKind kind) const {
  auto stmt = std::make_unique<Stmt>();
  stmt->kind = kind;
  stmt->line = peek().line;
  return stmt;
}

void Parser::end_tag() {
  if (peek().type != TokenType::BlockEnd) fail_expected("'%}'");
  next();
}

Block Parser::parse_template() {
  return parse_block({}, {}, 1);
}

/// Statements up to one of the tags `ends` (whose name is left as the next token), or to the end if there are none.
Block Parser::parse_block(std::initializer_list<std::string_view> ends, std::string_view opener, uint32_t line) {
  const Nesting nesting(*this);
  Block block;
  while (true) {
    const Token& token = peek();
    switch (token.type) {
      case TokenType::Data: {
        auto stmt = make_stmt(StmtKind::Data);
        stmt->data.bytes = next().text;
        block.push_back(std::move(stmt));
        break;
      }
      case TokenType::VarBegin: {
        next();
        block.push_back(parse_print());
        if (peek().type != TokenType::VarEnd) fail_expected("'}}'");
        next();
        break;
      }
      case TokenType::BlockBegin: {
        const Token& name = peek(1);
        if (name.type == TokenType::Name && std::find(ends.begin(), ends.end(), name.text) != ends.end()) {
          next();
          return block;
        }
        next();
        block.push_back(parse_statement());
        break;
      }
      default:
        if (!opener.empty()) fail_at(line, "'{{% {} %}}' is not closed by '{{% {} %}}'", opener, *(ends.end() - 1));
        return block;
    }
  }
}

StmtPtr Parser::parse_print() {
  auto stmt = make_stmt(StmtKind::Print);
  stmt->expr = parse_tuple(true, false);
  return stmt;
}

StmtPtr Parser::parse_statement() {
  const uint32_t line = peek().line;
  const std::string_view name = expect_identifier("the name of a tag").text;
  StmtPtr stmt;
  if (name == "if") {
    stmt = parse_if();
  } else if (name == "for") {
    stmt = parse_for();
  } else if (name == "set") {
    stmt = parse_set();
  } else if (name == "macro") {
    stmt = parse_macro();
  } else if (name == "call") {
    stmt = parse_call_block();
  } else if (name == "filter") {
    stmt = parse_filter_block();
  } else if (name == "with") {
    stmt = parse_with();
  } else if (name == "generation") {
    stmt = parse_scoped("endgeneration");
  } else if (name == "break") {
    stmt = parse_loop_control(StmtKind::Break);
  } else if (name == "continue") {
    stmt = parse_loop_control(StmtKind::Continue);
  } else if (name == "print" || name == "do") {
    stmt = parse_print();
    if (name == "do") stmt->kind = StmtKind::Do;
  } else if (name.starts_with("end") || name == "else" || name == "elif") {
    fail_at(line, "'{{% {} %}}' closes nothing that is open here", name);
  } else {
    fail_at(line, "the tag '{{% {} %}}' is not known", name);
  }
  stmt->line = line;
  end_tag();
  return stmt;
}

StmtPtr Parser::parse_if() {
  auto stmt = make_stmt(StmtKind::If);
  const uint32_t line = peek().line;
  ++if_depth_;
  while (true) {
    Branch branch;
    branch.test = parse_tuple(false, false);
    end_tag();
    branch.body = parse_block({"elif", "else", "endif"}, "if", line);
    stmt->branches.push_back(std::move(branch));
    if (!skip_name("elif")) break;
  }
  if (skip_name("else")) {
    end_tag();
    stmt->branches.push_back({nullptr, parse_block({"endif"}, "if", line)});
  }
  --if_depth_;
  expect_name("endif");
  return stmt;
}

StmtPtr Parser::parse_for() {
  auto stmt = make_stmt(StmtKind::For);
  const uint32_t line = peek().line;
  stmt->target = parse_target(false);
  expect_name("in");
  stmt->expr = parse_tuple(false, false, "recursive");
  if (skip_name("if")) stmt->test = parse_expression();
  if (is_name("recursive")) fail_at(line, "recursive loops are not supported");
  end_tag();
  ++loop_depth_;
  stmt->body = parse_block({"else", "endfor"}, "for", line);
  --loop_depth_;
  if (skip_name("else")) {
    end_tag();
    stmt->else_body = parse_block({"endfor"}, "for", line);
  }
  expect_name("endfor");
  return stmt;
}

StmtPtr Parser::parse_set() {
  const uint32_t line = peek().line;
  auto stmt = make_stmt(StmtKind::Set);
  stmt->target = parse_target(true);
  if (skip_op("=")) {
    stmt->expr = parse_tuple(true, false);
    return stmt;
  }
  stmt->kind = StmtKind::SetBlock;
  stmt->expr = parse_filters(make_expr(ExprKind::BlockText), false);
  end_tag();
  const uint32_t outer_loops = std::exchange(loop_depth_, 0);
  stmt->body = parse_block({"endset"}, "set", line);
  loop_depth_ = outer_loops;
  expect_name("endset");
  return stmt;
}

/// "(a, b=1)" of a macro or call block, the parentheses included.
void Parser::parse_signature(MacroDef& macro) {
  expect_op("(");
  while (!is_op(")")) {
    if (!macro.params.empty()) expect_op(",");
    if (is_op(")")) break;
    const Token& name = expect_identifier("the name of a parameter");
    macro.params.push_back(symbol(name.text));
    macro.param_names.push_back({name.text, {}, false, -1});
    if (skip_op("=")) {
      macro.defaults.push_back(parse_expression());
    } else if (!macro.defaults.empty()) {
      fail_at(name.line, "parameter '{}' without a default follows one that has a default", name.text);
    }
  }
  expect_op(")");
}

Block Parser::parse_macro_body(MacroDef& macro, std::string_view end, std::string_view opener, uint32_t line) {
  const size_t first = pos_;
  const uint32_t outer_loops = std::exchange(loop_depth_, 0);
  Block body = parse_block({end}, opener, line);
  loop_depth_ = outer_loops;
  for (size_t i = first; i < pos_; ++i) {
    if (tokens_[i].type != TokenType::Name) continue;
    macro.takes_varargs = macro.takes_varargs || tokens_[i].text == "varargs";
    macro.takes_kwargs = macro.takes_kwargs || tokens_[i].text == "kwargs";
    macro.takes_caller = macro.takes_caller || tokens_[i].text == "caller";
  }
  return body;
}

StmtPtr Parser::parse_macro() {
  auto stmt = make_stmt(StmtKind::Macro);
  const Token& name = expect_identifier("the name of the macro");
  stmt->macro = std::make_unique<MacroDef>();
  stmt->macro->name.bytes = name.text;
  stmt->target = make_expr(ExprKind::Name);
  stmt->target->symbol = symbol(name.text);
  parse_signature(*stmt->macro);
  end_tag();
  stmt->macro->body = parse_macro_body(*stmt->macro, "endmacro", "macro", name.line);
  expect_name("endmacro");
  return stmt;
}

StmtPtr Parser::parse_call_block() {
  auto stmt = make_stmt(StmtKind::CallBlock);
  const uint32_t line = peek().line;
  stmt->macro = std::make_unique<MacroDef>();
  stmt->macro->name.bytes = "caller";
  if (is_op("(")) parse_signature(*stmt->macro);
  stmt->expr = parse_expression();
  if (stmt->expr->kind != ExprKind::Call) fail_at(line, "'{{% call %}}' needs the call of a macro");
  end_tag();
  stmt->macro->body = parse_macro_body(*stmt->macro, "endcall", "call", line);
  expect_name("endcall");
  return stmt;
}

StmtPtr Parser::parse_filter_block() {
  auto stmt = make_stmt(StmtKind::FilterBlock);
  const uint32_t line = peek().line;
  stmt->expr = parse_filter(make_expr(ExprKind::BlockText));
  stmt->expr = parse_filters(std::move(stmt->expr), false);
  end_tag();
  const uint32_t outer_loops = std::exchange(loop_depth_, 0);
  stmt->body = parse_block({"endfilter"}, "filter", line);
  loop_depth_ = outer_loops;
  expect_name("endfilter");
  return stmt;
}

StmtPtr Parser::parse_with() {
  auto stmt = make_stmt(StmtKind::With);
  const uint32_t line = peek().line;
  while (peek().type != TokenType::BlockEnd) {
    if (!stmt->bindings.empty()) expect_op(",");
    ExprPtr target = parse_target(false);
    expect_op("=");
    stmt->bindings.emplace_back(std::move(target), parse_expression());
  }
  end_tag();
  stmt->body = parse_block({"endwith"}, "with", line);
  expect_name("endwith");
  return stmt;
}

/// {% generation %}: marks what the assistant says, for training; here its body is simply printed, in a scope of its
/// own.
StmtPtr Parser::parse_scoped(std::string_view end) {
  auto stmt = make_stmt(StmtKind::Scoped);
  const uint32_t line = peek().line;
  end_tag();
  stmt->body = parse_block({end}, end.substr(3), line);
  expect_name(end);
  return stmt;
}

StmtPtr Parser::parse_loop_control(StmtKind kind) {
  if (loop_depth_ == 0)
    fail_at(peek().line, "'{}' stands outside of a loop", kind == StmtKind::Break ? "break" : "continue");
  return make_stmt(kind);
}

}  // namespace quern::jinja
