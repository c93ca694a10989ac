// Statements: output, branches, loops, assignments, macros and the scopes around them.
#include "text/jinja_eval.h"

#include <algorithm>
#include <utility>

#include "text/jinja_eval_impl.h"
#include "text/jinja_ops.h"
#include "text/jinja_print.h"

namespace quern::jinja {

void Scope::set(Symbol symbol, const Value& value) {
  for (auto& [key, old] : variables) {
    if (key == symbol) {
      old = value;
      return;
    }
  }
  variables.emplace_back(symbol, value);
}

Evaluator::Evaluator(const Template& source, Heap& heap)
    : template_(source), heap_(heap), context_(source.symbols.size(), Value::missing()) {
  for (size_t i = 0; i < source.symbols.size(); ++i) {
    if (const Builtin* global = find_global(source.symbols[i])) {
      context_[i].kind = Kind::Function;
      context_[i].function = global;
    }
  }
}

void Evaluator::define(std::string_view name, const Value& value) {
  const auto it = template_.numbers.find(name);
  if (it != template_.numbers.end()) context_[it->second] = value;
}

TextBuilder Evaluator::run() {
  TextBuilder out;
  out_ = &out;
  exec(template_.body);
  out_ = nullptr;
  return out;
}

Evaluator::Flow Evaluator::exec(const Block& block) {
  const DepthGuard depth(*this);
  for (const StmtPtr& stmt : block) {
    const Flow flow = exec_stmt(*stmt);
    if (flow != Flow::Normal) return flow;
  }
  return Flow::Normal;
}

Evaluator::Flow Evaluator::exec_stmt(const Stmt& stmt) {
  heap_.tick();
  line_ = stmt.line;
  switch (stmt.kind) {
    case StmtKind::Data:
      print(Value::of(&stmt.data));
      break;
    case StmtKind::Print:
      print(eval(*stmt.expr));
      break;
    case StmtKind::Do:
      eval(*stmt.expr);
      break;
    case StmtKind::If:
      return exec_if(stmt);
    case StmtKind::For:
      return exec_for(stmt);
    case StmtKind::With:
    case StmtKind::Scoped:
      return exec_scoped(stmt);
    case StmtKind::Set:
      assign(*stmt.target, eval(*stmt.expr));
      break;
    case StmtKind::SetBlock:
      assign(*stmt.target, filtered_block(stmt));
      break;
    case StmtKind::Macro:
      assign(*stmt.target, make_macro(*stmt.macro));
      break;
    case StmtKind::CallBlock:
      exec_call_block(stmt);
      break;
    case StmtKind::FilterBlock:
      print(filtered_block(stmt));
      break;
    case StmtKind::Break:
      return Flow::Break;
    case StmtKind::Continue:
      return Flow::Continue;
  }
  return Flow::Normal;
}

void Evaluator::print(const Value& value) {
  append_str(heap_, *out_, value);
}

Evaluator::Flow Evaluator::exec_if(const Stmt& stmt) {
  for (const Branch& branch : stmt.branches) {
    if (!branch.test || truth(eval(*branch.test))) return exec(branch.body);
  }
  return Flow::Normal;
}

/// The elements that the loop runs over: those that pass its own `if`.
Seq* Evaluator::loop_items(const Stmt& stmt) {
  Seq* all = iterate(heap_, eval(*stmt.expr));
  if (!stmt.test) return all;
  std::vector<Value> passed;
  const ScopeGuard guard(*this);
  for (size_t i = 0; i < all->items.size(); ++i) {
    heap_.tick();
    const Value item = all->items[i];
    assign(*stmt.target, item);
    if (truth(eval(*stmt.test))) passed.push_back(item);
  }
  return heap_.list(std::move(passed)).seq;
}

Evaluator::Flow Evaluator::exec_for(const Stmt& stmt) {
  Seq* items = loop_items(stmt);
  if (items->items.empty()) {
    const ScopeGuard guard(*this);
    return exec(stmt.else_body);
  }
  Value loop;
  loop.kind = Kind::Loop;
  loop.loop = heap_.loop({items, items->items.size(), 0, Value::missing()});
  for (size_t i = 0; i < loop.loop->n_items && i < items->items.size(); ++i) {
    heap_.tick();
    loop.loop->index0 = i;
    const ScopeGuard guard(*this);
    scope_->set(kLoop, loop);
    assign(*stmt.target, items->items[i]);
    if (exec(stmt.body) == Flow::Break) break;
  }
  return Flow::Normal;
}

/// `with` and `generation`: a block with variables of its own.
Evaluator::Flow Evaluator::exec_scoped(const Stmt& stmt) {
  std::vector<Value> values;
  for (const auto& [target, expr] : stmt.bindings) values.push_back(eval(*expr));
  const ScopeGuard guard(*this);
  for (size_t i = 0; i < values.size(); ++i) assign(*stmt.bindings[i].first, values[i]);
  return exec(stmt.body);
}

/// Runs a block in a scope of its own and gives what it printed.
Value Evaluator::capture(const Block& body) {
  TextBuilder text;
  TextBuilder* outer = std::exchange(out_, &text);
  {
    const ScopeGuard guard(*this);
    exec(body);
  }
  out_ = outer;
  return heap_.text(std::move(text));
}

/// What the block of a {% set %} or {% filter %} prints, through its filters.
Value Evaluator::filtered_block(const Stmt& stmt) {
  block_text_ = capture(stmt.body);
  return eval(*stmt.expr);
}

void Evaluator::exec_call_block(const Stmt& stmt) {
  const Value callee = eval(*stmt.expr->items[0]);
  Args args = eval_args(*stmt.expr, 1);
  static constexpr Str kCallerName{"caller", {}, false, 6};
  args.named.emplace_back(&kCallerName, make_macro(*stmt.macro));
  print(call(callee, args));
}

Value Evaluator::make_macro(const MacroDef& definition) {
  for (Scope* scope = scope_; scope != nullptr && !scope->kept; scope = scope->parent) scope->kept = true;
  return heap_.macro({&definition, scope_});
}

void Evaluator::assign(const Expr& target, const Value& value) {
  if (target.kind == ExprKind::Name) {
    scope_->set(target.symbol, value);
    return;
  }
  if (target.kind == ExprKind::Tuple) {
    assign_tuple(target, value);
    return;
  }
  const Value object = eval(*target.items[0]);
  if (!object.is(Kind::Namespace))
    fail("cannot assign attribute '{}': '{}' is not a namespace", target.text.bytes, target.items[0]->text.bytes);
  heap_.charge(2 * sizeof(Value));
  object.dict->set(Value::of(&target.text), value);
}

void Evaluator::assign_tuple(const Expr& target, const Value& value) {
  if (!is_iterable(value)) fail("cannot unpack non-iterable {} object", type_name(value));
  const std::vector<Value> values = iterate(heap_, value)->items;
  if (values.size() != target.items.size()) {
    fail("{} values to unpack (expected {}, got {})", values.size() > target.items.size() ? "too many" : "not enough",
         target.items.size(), values.size());
  }
  for (size_t i = 0; i < values.size(); ++i) assign(*target.items[i], values[i]);
}

}  // namespace quern::jinja
