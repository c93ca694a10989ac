// Expressions: names, operators, calls of macros and of builtins.
#include <algorithm>
#include <utility>

#include "text/jinja_eval_impl.h"
#include "text/jinja_ops.h"
#include "text/jinja_print.h"

namespace quern::jinja {

std::string_view macro_name(const Macro& macro) {
  return macro.definition->name.bytes;
}

Value Evaluator::eval(const Expr& expr) {
  heap_.tick();
  switch (expr.kind) {  // what needs no recursion first
    case ExprKind::Const:
      return expr.constant;
    case ExprKind::Name:
      return eval_name(expr);
    case ExprKind::BlockText:
      return block_text_;
    default:
      break;
  }
  const DepthGuard depth(*this);
  switch (expr.kind) {
    case ExprKind::Attribute: {
      const Value object = eval(*expr.items[0]);
      line_ = expr.line;
      return get_attribute(heap_, object, expr.text);
    }
    case ExprKind::Item:
      return eval_item(expr);
    case ExprKind::Call:
      return eval_call(expr);
    case ExprKind::Filter:
      return eval_filter(expr);
    case ExprKind::Test:
      return eval_test(expr);
    case ExprKind::And: {
      const Value left = eval(*expr.items[0]);
      return truth(left) ? eval(*expr.items[1]) : left;
    }
    case ExprKind::Or: {
      const Value left = eval(*expr.items[0]);
      return truth(left) ? left : eval(*expr.items[1]);
    }
    case ExprKind::Not:
      return Value::of(!truth(eval(*expr.items[0])));
    case ExprKind::Cond:
      if (truth(eval(*expr.items[0]))) return eval(*expr.items[1]);
      return expr.items[2] ? eval(*expr.items[2]) : Value::undefined(heap_.view("the inline if without an else").str);
    case ExprKind::Compare:
      return eval_compare(expr);
    case ExprKind::Concat:
      return eval_concat(expr);
    case ExprKind::Unary:
      return negate(eval(*expr.items[0]), expr.op);
    case ExprKind::Binary: {
      const Value left = eval(*expr.items[0]), right = eval(*expr.items[1]);
      line_ = expr.line;
      return arithmetic(heap_, expr.op, left, right);
    }
    case ExprKind::List:
    case ExprKind::Tuple:
    case ExprKind::Dict:
      return eval_container(expr);
    default:
      fail("a slice stands alone");
  }
}

Value Evaluator::eval_name(const Expr& expr) {
  for (const Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
    for (const auto& [symbol, value] : scope->variables) {
      if (symbol == expr.symbol) return value;
    }
  }
  const Value& found = context_[expr.symbol];
  if (!found.is(Kind::Missing)) return found;
  Value undefined = Value::undefined(&expr.text);
  return undefined;
}

Value Evaluator::eval_container(const Expr& expr) {
  if (expr.kind == ExprKind::Dict) {
    const Value dict = heap_.dict();
    heap_.charge(expr.items.size() * sizeof(Value));
    for (size_t i = 0; i + 1 < expr.items.size(); i += 2) {
      const Value key = eval(*expr.items[i]);
      dict.dict->set(key, eval(*expr.items[i + 1]));
    }
    return dict;
  }
  std::vector<Value> items;
  for (const ExprPtr& item : expr.items) items.push_back(eval(*item));
  return expr.kind == ExprKind::List ? heap_.list(std::move(items)) : heap_.tuple(std::move(items));
}

Value Evaluator::eval_item(const Expr& expr) {
  const Value object = eval(*expr.items[0]);
  const Expr& key = *expr.items[1];
  if (key.kind != ExprKind::Slice) {
    const Value index = eval(key);
    line_ = expr.line;
    return get_item(heap_, object, index);
  }
  Value bounds[3];
  for (size_t i = 0; i < 3; ++i) bounds[i] = key.items[i] ? eval(*key.items[i]) : Value::missing();
  line_ = expr.line;
  return get_slice(heap_, object, bounds[0], bounds[1], bounds[2]);
}

Value Evaluator::eval_compare(const Expr& expr) {
  Value left = eval(*expr.items[0]);
  for (size_t i = 0; i < expr.ops.size(); ++i) {
    const Value right = eval(*expr.items[i + 1]);
    line_ = expr.line;
    if (!compare_op(heap_, expr.ops[i], left, right)) return Value::of(false);
    left = right;
  }
  return Value::of(true);
}

Value Evaluator::eval_concat(const Expr& expr) {
  std::vector<Value> parts;
  for (const ExprPtr& item : expr.items) parts.push_back(eval(*item));
  return concat(heap_, parts.data(), parts.size());
}

Args Evaluator::eval_args(const Expr& call, size_t first) {
  Args args;
  for (size_t i = first; i < call.items.size(); ++i) args.positional.push_back(eval(*call.items[i]));
  if (call.star) {
    const Seq* more = iterate(heap_, eval(*call.star));
    heap_.tick(more->items.size());
    args.positional.insert(args.positional.end(), more->items.begin(), more->items.end());
  }
  for (const NamedArg& named : call.named) args.named.emplace_back(&named.name, eval(*named.value));
  if (call.star_star) {
    const Value more = eval(*call.star_star);
    if (!more.is(Kind::Dict)) fail("argument after ** must be a mapping, not {}", type_name(more));
    heap_.tick(more.dict->size());
    for (const auto& [key, value] : more.dict->items()) {
      if (!key.is(Kind::Str)) fail("keywords must be strings");
      args.named.emplace_back(key.str, value);
    }
  }
  return args;
}

Value Evaluator::eval_call(const Expr& expr) {
  const Expr& callee = *expr.items[0];
  if (callee.kind == ExprKind::Attribute) {  // a method, called without making it a value first
    const Value object = eval(*callee.items[0]);
    if (const Builtin* method = find_method(object, callee.text.bytes)) {
      const Args args = eval_args(expr, 1);
      line_ = expr.line;
      return call_builtin(heap_, *method, object, args);
    }
    line_ = expr.line;
    const Value function = get_attribute(heap_, object, callee.text);
    Args args = eval_args(expr, 1);
    line_ = expr.line;
    return call(function, args);
  }
  const Value function = eval(callee);
  Args args = eval_args(expr, 1);
  line_ = expr.line;
  return call(function, args);
}

Value Evaluator::call(const Value& callee, Args& args) {
  switch (callee.kind) {
    case Kind::Macro:
      return call_macro(*callee.macro, args);
    case Kind::Function:
      return call_builtin(heap_, *callee.function, Value::none(), args);
    case Kind::Method:
      return call_builtin(heap_, *callee.method->builtin, callee.method->self, args);
    case Kind::Undefined:
      fail_undefined(callee);
    case Kind::Loop:
      fail("recursive loops are not supported");
    default:
      fail("'{}' object is not callable", type_name(callee));
  }
}

Value Evaluator::eval_filter(const Expr& expr) {
  const Value value = eval(*expr.items[0]);
  const Args args = eval_args(expr, 1);
  line_ = expr.line;
  if (!expr.builtin) fail("the filter '{}' is not known", expr.text.bytes);
  return call_builtin(heap_, *expr.builtin, value, args);
}

Value Evaluator::eval_test(const Expr& expr) {
  const Value value = eval(*expr.items[0]);
  const Args args = eval_args(expr, 1);
  line_ = expr.line;
  if (!expr.builtin) fail("the test '{}' is not known", expr.text.bytes);
  return call_builtin(heap_, *expr.builtin, value, args);
}

Value Evaluator::call_macro(const Macro& macro, Args& args) {
  const DepthGuard depth(*this);
  TextBuilder text;
  TextBuilder* outer = std::exchange(out_, &text);
  {
    const ScopeGuard guard(*this, macro.scope);
    bind_parameters(*macro.definition, args);
    exec(macro.definition->body);
  }
  out_ = outer;
  return heap_.text(std::move(text));
}

void Evaluator::bind_parameters(const MacroDef& definition, Args& args) {
  const size_t n_params = definition.params.size(), n_defaults = definition.defaults.size();
  std::vector<bool> used(args.named.size());
  for (size_t i = 0; i < n_params; ++i) {
    const Str& name = definition.param_names[i];
    Value value = Value::missing();
    if (i < args.positional.size()) value = args.positional[i];
    for (size_t k = 0; k < args.named.size(); ++k) {
      if (args.named[k].first->bytes != name.bytes) continue;
      if (!value.is(Kind::Missing))
        fail("macro '{}' got multiple values for argument '{}'", definition.name.bytes, name.bytes);
      value = args.named[k].second;
      used[k] = true;
    }
    if (value.is(Kind::Missing)) {
      value =
          i + n_defaults >= n_params ? eval(*definition.defaults[i + n_defaults - n_params]) : Value::undefined(&name);
    }
    scope_->set(definition.params[i], value);
  }
  bind_rest(definition, args, used);
}

/// caller, varargs and kwargs: what the parameters did not take, where the macro's body asks for it.
void Evaluator::bind_rest(const MacroDef& definition, Args& args, std::vector<bool>& used) {
  const size_t n_params = definition.params.size();
  const Value rest = heap_.dict();
  for (size_t k = 0; k < args.named.size(); ++k) {
    if (used[k]) continue;
    const auto& [name, value] = args.named[k];
    if (name->bytes == "caller" && definition.takes_caller) {
      scope_->set(kCaller, value);
    } else if (definition.takes_kwargs) {
      rest.dict->set(Value::of(name), value);
    } else {
      fail("macro '{}' takes no keyword argument '{}'", definition.name.bytes, name->bytes);
    }
  }
  if (definition.takes_kwargs) scope_->set(kKwargs, rest);
  const size_t n_taken = std::min(n_params, args.positional.size());
  if (definition.takes_varargs) {
    scope_->set(kVarargs, heap_.tuple({args.positional.begin() + std::ptrdiff_t(n_taken), args.positional.end()}));
  } else if (args.positional.size() > n_params) {
    fail("macro '{}' takes not more than {} argument(s)", definition.name.bytes, n_params);
  }
}

}  // namespace quern::jinja
