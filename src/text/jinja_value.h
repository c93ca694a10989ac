// The values that a chat template computes with: Python's, as far as templates can see them. Every object lives in a
// Heap for as long as one rendering lasts, so a Value is a small copyable handle and cycles or deep nesting cost
// nothing to free. Strings carry marks: the byte ranges that came from the conversation and not from the template's own
// text.
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <ctime>
#include <deque>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace quern::jinja {

/// What went wrong while rendering; the evaluator adds the line and turns it into an Error.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Failure(fmt::format(format, std::forward<Args>(args)...));
}

/// What one rendering may cost. A step is about one evaluated node, one list element or 64 bytes of text worked on.
struct Limits {
  uint64_t max_steps = 10'000'000;
  uint64_t max_heap_bytes = uint64_t{1} << 29;  ///< strings and containers created, summed up
  uint64_t max_text_bytes = uint64_t{1} << 26;  ///< one string, or the output
  uint32_t max_depth = 800;                     ///< nested evaluations (macro calls included)
  int64_t max_range = 100'000;                  ///< elements of range(), as in jinja2's sandbox
};

/// Bytes [begin, end) of a text that came from the inputs.
struct Mark {
  uint32_t begin, end;
  bool operator==(const Mark&) const = default;
};

/// An immutable text. `bytes` is UTF-8 (invalid bytes count as one character each) and outlives the rendering.
struct Str {
  std::string_view bytes;
  std::vector<Mark> marks;       ///< ascending, disjoint, not touching
  bool safe = false;             ///< markupsafe.Markup: `+` escapes the other side
  mutable int64_t n_chars = -1;  ///< counted on first use
};

/// Text under construction.
class TextBuilder {
 public:
  void append(const Str& part);
  void append(std::string_view bytes, bool from_input);
  void clear_marks() { marks.clear(); }
  /// Marks everything as input if any of it is: for JSON and Python's repr, where quoting mixes the two.
  void spread_marks();

  std::string bytes;
  std::vector<Mark> marks;
};

enum class Kind : uint8_t {
  Missing,
  Undefined,
  None,
  Bool,
  Int,
  Float,
  Str,
  Seq,
  Dict,
  Namespace,
  Macro,
  Function,
  Method,
  Loop
};
enum class SeqKind : uint8_t { List, Tuple, Range, View, Generator };

struct Seq;
class Dict;
struct Scope;
struct MacroDef;
struct Method;
struct Loop;
struct Builtin;

/// A macro (or the body of a call block), with the scope that it was defined in.
struct Macro {
  const MacroDef* definition;
  Scope* scope;
};

struct Value {
  Kind kind = Kind::Undefined;
  Kind owner = Kind::Missing;  ///< Undefined: the kind of object that lacked the attribute; Missing: a variable
  SeqKind owner_seq = SeqKind::List;
  union {
    int64_t integer = 0;
    double number;
    bool boolean;
    const Str* str;
    Seq* seq;
    Dict* dict;  ///< Dict and Namespace
    const Macro* macro;
    const Builtin* function;
    const Method* method;
    Loop* loop;
    const Str* missing_name;  ///< Undefined: the name or attribute, may be null
  };

  static Value missing();
  static Value none();
  static Value of(bool value);
  static Value of(int64_t value);
  static Value of(double value);
  static Value of(const Str* value);
  static Value undefined(const Str* name = nullptr);

  bool is(Kind k) const { return kind == k; }
  bool is_number() const { return kind == Kind::Bool || kind == Kind::Int || kind == Kind::Float; }
  bool is_integer() const { return kind == Kind::Bool || kind == Kind::Int; }
  bool is_list() const;
  int64_t as_integer() const { return kind == Kind::Bool ? boolean : integer; }
  double as_double() const { return kind == Kind::Float ? number : double(as_integer()); }
  std::string_view text() const { return str->bytes; }
};

struct Seq {
  SeqKind kind = SeqKind::List;
  std::vector<Value> items;
  std::string_view type_name = "list";  ///< Python's name of the type, for messages
  bool consumed = false;                ///< a generator gives its elements once
};

/// Insertion-ordered, as Python's. Small ones are searched, larger ones indexed.
class Dict {
 public:
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  /// @throws Failure if the key is not hashable
  void set(const Value& key, const Value& value);
  bool erase(const Value& key);

  const std::vector<std::pair<Value, Value>>& items() const { return items_; }
  size_t size() const { return items_.size(); }

 private:
  static constexpr size_t kIndexFrom = 12;
  size_t position(const Value& key) const;
  void rebuild_index();

  std::vector<std::pair<Value, Value>> items_;
  std::unordered_multimap<size_t, size_t> index_;
};

/// A method of a value, taken but not called yet.
struct Method {
  Value self;
  const Builtin* builtin;
};

/// What `loop` is inside a for.
struct Loop {
  Seq* items;
  size_t n_items;
  size_t index0 = 0;
  Value last_changed = Value::missing();
};

/// Owns the objects of one rendering and counts what it costs.
class Heap {
 public:
  explicit Heap(const Limits& limits) : limits_(limits) {}

  void tick(uint64_t steps = 1) {
    steps_ += steps;
    if (steps_ > limits_.max_steps) too_many_steps();
  }
  void tick_bytes(uint64_t bytes) { tick(1 + bytes / 64); }
  void charge(uint64_t bytes);
  /// Checks the size of a text before it is made.
  void check_text(uint64_t bytes) const;
  const Limits& limits() const { return limits_; }

  /// Template text that the heap comes to own, or (view) that outlives it.
  Value text(std::string bytes);
  Value view(std::string_view bytes);
  Value text(TextBuilder&& builder, bool safe = false);
  Value user_view(std::string_view bytes);
  Value slice(const Str& source, size_t begin, size_t end);

  Value list(std::vector<Value> items) { return seq(SeqKind::List, "list", std::move(items)); }
  Value tuple(std::vector<Value> items) { return seq(SeqKind::Tuple, "tuple", std::move(items)); }
  Value generator(std::vector<Value> items) { return seq(SeqKind::Generator, "generator", std::move(items)); }
  Value seq(SeqKind kind, std::string_view type_name, std::vector<Value> items);
  Value dict(Kind kind = Kind::Dict);
  Value method(const Value& self, const Builtin* builtin);
  Value macro(Macro macro);
  Loop* loop(Loop loop);

  std::optional<std::tm> now;  ///< what strftime_now formats; the clock when absent

 private:
  [[noreturn]] void too_many_steps() const;

  const Limits limits_;
  uint64_t steps_ = 0;
  uint64_t bytes_ = 0;
  std::deque<std::string> buffers_;
  std::deque<Str> strs_;
  std::deque<Seq> seqs_;
  std::deque<Dict> dicts_;
  std::deque<Method> methods_;
  std::deque<Macro> macros_;
  std::deque<Loop> loops_;
};

/// Python's name of the value's type: "str", "NoneType", "dict".
std::string_view type_name(const Value& value);
/// jinja2's way to name it in messages about attributes: "'dict object'", "'None'".
std::string object_name(const Value& value);
/// @throws Failure saying what is undefined.
[[noreturn]] void fail_undefined(const Value& value);
/// Python's hash(), in its own way. @throws Failure for lists, dicts and tuples of tuples.
size_t hash_value(const Value& value);
/// Whether two hashable values are the same key.
bool same_key(const Value& a, const Value& b);
/// Guards the recursions over nested containers. @throws Failure beyond 200 levels.
inline void check_nesting(int depth) {
  if (depth > 200) fail("a value is nested more than 200 levels deep");
}

}  // namespace quern::jinja
