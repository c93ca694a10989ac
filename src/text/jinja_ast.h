// The parsed template. Nodes are plain data; names are numbered so that scopes compare integers; filters and tests are
// looked up by the parser. Literals are Str objects without marks: what the template itself says.
#pragma once
#include <memory>
#include <vector>

#include "text/jinja_lexer.h"
#include "text/jinja_ops.h"
#include "text/jinja_value.h"

namespace quern::jinja {

struct Builtin;
struct Expr;
using ExprPtr = std::unique_ptr<Expr>;
using Symbol = uint32_t;

/// BlockText is what the block of a {% filter %} or {% set %} printed: the innermost operand of its filters.
enum class ExprKind : uint8_t {
  Const,
  Name,
  List,
  Tuple,
  Dict,
  Attribute,
  Item,
  Slice,
  Call,
  Filter,
  Test,
  BlockText,
  Unary,
  Binary,
  Compare,
  And,
  Or,
  Not,
  Concat,
  Cond
};

struct NamedArg {
  Str name;
  ExprPtr value;
};

struct Expr {
  ExprKind kind;
  uint32_t line = 0;
  uint32_t height = 1;  ///< levels of nodes below and including this one
  Op op = Op::Add;      ///< Unary, Binary
  Symbol symbol = 0;    ///< Name
  Value constant;       ///< Const
  Str text;             ///< string constant; name of a variable, attribute, filter or test
  std::vector<ExprPtr>
      items;            ///< operands in source order; Dict: key, value, …; Call: callee, arguments; null: left out
  std::vector<Op> ops;  ///< Compare: between the items
  std::vector<NamedArg> named;       ///< keyword arguments
  ExprPtr star, star_star;           ///< *args and **kwargs of a call
  const Builtin* builtin = nullptr;  ///< Filter, Test; null if there is none of that name
};

struct Stmt;
using StmtPtr = std::unique_ptr<Stmt>;
using Block = std::vector<StmtPtr>;

struct MacroDef {
  Str name;
  std::vector<Symbol> params;
  std::vector<Str> param_names;
  std::vector<ExprPtr> defaults;  ///< of the last parameters
  Block body;
  bool takes_varargs = false, takes_kwargs = false, takes_caller = false;  ///< the body names them
};

enum class StmtKind : uint8_t {
  Data,
  Print,
  If,
  For,
  Set,
  SetBlock,
  Macro,
  CallBlock,
  FilterBlock,
  With,
  Scoped,
  Break,
  Continue,
  Do
};

struct Branch {
  ExprPtr test;  ///< null: else
  Block body;
};

struct Stmt {
  StmtKind kind;
  uint32_t line = 0;
  Str data;        ///< Data
  ExprPtr target;  ///< For, Set, SetBlock: a Name, a Tuple of targets, or an Attribute of a Name (namespace)
  ExprPtr expr;    ///< Print, Do, For (what is iterated), Set, CallBlock (the call), FilterBlock, SetBlock (their
                   ///< filters, around BlockText)
  ExprPtr test;    ///< For … if
  Block body;
  Block else_body;                                    ///< For
  std::vector<Branch> branches;                       ///< If
  std::vector<std::pair<ExprPtr, ExprPtr>> bindings;  ///< With
  std::unique_ptr<MacroDef> macro;                    ///< Macro, CallBlock (the caller)
};

/// The symbols that the language itself uses come first.
enum KnownSymbol : Symbol { kLoop, kCaller, kVarargs, kKwargs, kFirstFreeSymbol };

struct Template {
  TokenList tokens;                                      ///< owns the text that the nodes point into
  std::vector<std::string_view> symbols;                 ///< number to name
  std::unordered_map<std::string_view, Symbol> numbers;  ///< and back
  Block body;
};

}  // namespace quern::jinja
