// The evaluator's guards, shared by its two files: statements (jinja_eval.cpp) and expressions (jinja_eval_expr.cpp).
#pragma once
#include "text/jinja_eval.h"

namespace quern::jinja {

/// A scope inside the present one (or inside `parent`), for as long as the guard lives.
class Evaluator::ScopeGuard {
 public:
  explicit ScopeGuard(Evaluator& evaluator) : ScopeGuard(evaluator, evaluator.scope_) {}
  ScopeGuard(Evaluator& evaluator, Scope* parent)
      : evaluator_(evaluator), outer_(evaluator.scope_), scope_(std::make_unique<Scope>()) {
    scope_->parent = parent;
    evaluator.scope_ = scope_.get();
  }
  ~ScopeGuard() {
    evaluator_.scope_ = outer_;
    if (scope_->kept) evaluator_.kept_scopes_.push_back(std::move(scope_));
  }
  ScopeGuard(const ScopeGuard&) = delete;

 private:
  Evaluator& evaluator_;
  Scope* outer_;
  std::unique_ptr<Scope> scope_;
};

/// Counts nested evaluations, so that recursion in a template cannot exhaust the stack.
class Evaluator::DepthGuard {
 public:
  explicit DepthGuard(Evaluator& evaluator) : evaluator_(evaluator) {
    if (++evaluator.depth_ > evaluator.heap_.limits().max_depth) {
      fail("stopped: more than {} evaluations inside each other (does a macro call itself?)",
           evaluator.heap_.limits().max_depth);
    }
  }
  ~DepthGuard() { --evaluator_.depth_; }
  DepthGuard(const DepthGuard&) = delete;

 private:
  Evaluator& evaluator_;
};

}  // namespace quern::jinja
