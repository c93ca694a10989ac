// Runs a parsed Template over variables. Control flow, scopes and calls live here; what values do to each other is
// jinja_ops'.
#pragma once
#include <memory>

#include "text/jinja_ast.h"
#include "text/jinja_builtins.h"
#include "text/jinja_value.h"

namespace quern::jinja {

/// Variables of one block. Names are looked up from the innermost scope outwards.
struct Scope {
  Scope* parent = nullptr;
  std::vector<std::pair<Symbol, Value>> variables;
  bool kept = false;  ///< a macro refers to it, so it lives as long as the rendering

  void set(Symbol symbol, const Value& value);
};

class Evaluator {
 public:
  Evaluator(const Template& source, Heap& heap);

  void define(std::string_view name, const Value& value);
  /// Renders the template. @throws Failure; line() then says where.
  TextBuilder run();
  uint32_t line() const { return line_; }

 private:
  enum class Flow : uint8_t { Normal, Break, Continue };
  class ScopeGuard;
  class DepthGuard;

  // Statements.
  Flow exec(const Block& block);
  Flow exec_stmt(const Stmt& stmt);
  Flow exec_if(const Stmt& stmt);
  Flow exec_for(const Stmt& stmt);
  Flow exec_scoped(const Stmt& stmt);
  void exec_call_block(const Stmt& stmt);
  Seq* loop_items(const Stmt& stmt);
  Value capture(const Block& body);
  Value filtered_block(const Stmt& stmt);
  void assign(const Expr& target, const Value& value);
  void assign_tuple(const Expr& target, const Value& value);
  void print(const Value& value);
  Value make_macro(const MacroDef& definition);

  // Expressions.
  Value eval(const Expr& expr);
  Value eval_name(const Expr& expr);
  Value eval_container(const Expr& expr);
  Value eval_item(const Expr& expr);
  Value eval_call(const Expr& expr);
  Value eval_filter(const Expr& expr);
  Value eval_test(const Expr& expr);
  Value eval_compare(const Expr& expr);
  Value eval_concat(const Expr& expr);
  Args eval_args(const Expr& call, size_t first);
  Value call(const Value& callee, Args& args);
  Value call_macro(const Macro& macro, Args& args);
  void bind_parameters(const MacroDef& definition, Args& args);
  void bind_rest(const MacroDef& definition, Args& args, std::vector<bool>& used);

  const Template& template_;
  Heap& heap_;
  std::vector<Value> context_;  ///< by symbol: inputs and globals
  Scope root_;
  Scope* scope_ = &root_;
  std::vector<std::unique_ptr<Scope>> kept_scopes_;
  TextBuilder* out_ = nullptr;
  Value block_text_;
  uint32_t line_ = 1;
  uint32_t depth_ = 0;
};

}  // namespace quern::jinja
