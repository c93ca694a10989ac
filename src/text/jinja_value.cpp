// The heap of one rendering, ordered dictionaries, and texts that know which of their bytes came from the inputs.
#include "text/jinja_value.h"

#include <algorithm>
#include <functional>

namespace quern::jinja {

namespace {

void add_mark(std::vector<Mark>& marks, size_t begin, size_t end) {
  if (begin == end) return;
  if (!marks.empty() && marks.back().end == begin) {
    marks.back().end = uint32_t(end);
  } else {
    marks.push_back({uint32_t(begin), uint32_t(end)});
  }
}

}  // namespace

void TextBuilder::append(const Str& part) {
  const size_t base = bytes.size();
  for (const Mark& mark : part.marks) add_mark(marks, base + mark.begin, base + mark.end);
  bytes += part.bytes;
}

void TextBuilder::append(std::string_view part, bool from_input) {
  if (from_input) add_mark(marks, bytes.size(), bytes.size() + part.size());
  bytes += part;
}

void TextBuilder::spread_marks() {
  if (!marks.empty()) marks = {{0, uint32_t(bytes.size())}};
}

Value Value::missing() {
  Value v;
  v.kind = Kind::Missing;
  return v;
}

Value Value::none() {
  Value v;
  v.kind = Kind::None;
  return v;
}

Value Value::of(bool value) {
  Value v;
  v.kind = Kind::Bool;
  v.integer = 0;
  v.boolean = value;
  return v;
}

Value Value::of(int64_t value) {
  Value v;
  v.kind = Kind::Int;
  v.integer = value;
  return v;
}

Value Value::of(double value) {
  Value v;
  v.kind = Kind::Float;
  v.number = value;
  return v;
}

Value Value::of(const Str* value) {
  Value v;
  v.kind = Kind::Str;
  v.str = value;
  return v;
}

Value Value::undefined(const Str* name) {
  Value v;
  v.missing_name = name;
  return v;
}

bool Value::is_list() const {
  return kind == Kind::Seq && seq->kind == SeqKind::List;
}

size_t Dict::position(const Value& key) const {
  if (index_.empty()) {
    for (size_t i = 0; i < items_.size(); ++i) {
      if (same_key(items_[i].first, key)) return i;
    }
    return items_.size();
  }
  const auto [begin, end] = index_.equal_range(hash_value(key));
  for (auto it = begin; it != end; ++it) {
    if (same_key(items_[it->second].first, key)) return it->second;
  }
  return items_.size();
}

const Value* Dict::find(const Value& key) const {
  const size_t i = position(key);
  return i < items_.size() ? &items_[i].second : nullptr;
}

const Value* Dict::find(std::string_view key) const {
  const Str name{key, {}, false, -1};
  return find(Value::of(&name));
}

void Dict::set(const Value& key, const Value& value) {
  const size_t hash = hash_value(key);
  const size_t i = position(key);
  if (i < items_.size()) {
    items_[i].second = value;
    return;
  }
  items_.emplace_back(key, value);
  if (!index_.empty()) {
    index_.emplace(hash, i);
  } else if (items_.size() >= kIndexFrom) {
    rebuild_index();
  }
}

bool Dict::erase(const Value& key) {
  const size_t i = position(key);
  if (i == items_.size()) return false;
  items_.erase(items_.begin() + std::ptrdiff_t(i));
  index_.clear();
  if (items_.size() >= kIndexFrom) rebuild_index();
  return true;
}

void Dict::rebuild_index() {
  for (size_t i = 0; i < items_.size(); ++i) index_.emplace(hash_value(items_[i].first), i);
}

void Heap::too_many_steps() const {
  fail("stopped after {} steps: the template loops for too long", limits_.max_steps);
}

void Heap::charge(uint64_t bytes) {
  bytes_ += bytes;
  if (bytes_ > limits_.max_heap_bytes)
    fail("stopped: the template makes more than {} MiB of values", limits_.max_heap_bytes >> 20);
}

void Heap::check_text(uint64_t bytes) const {
  if (bytes > limits_.max_text_bytes)
    fail("stopped: a text of {} bytes, at most {} are allowed", bytes, limits_.max_text_bytes);
}

Value Heap::text(std::string bytes) {
  check_text(bytes.size());
  charge(bytes.size() + sizeof(Str) + sizeof(std::string));
  tick_bytes(bytes.size());
  buffers_.push_back(std::move(bytes));
  strs_.push_back({buffers_.back(), {}, false, -1});
  return Value::of(&strs_.back());
}

Value Heap::view(std::string_view bytes) {
  charge(sizeof(Str));
  strs_.push_back({bytes, {}, false, -1});
  return Value::of(&strs_.back());
}

Value Heap::user_view(std::string_view bytes) {
  check_text(bytes.size());
  charge(sizeof(Str) + sizeof(Mark));
  strs_.push_back({bytes, {}, false, -1});
  if (!bytes.empty()) strs_.back().marks.push_back({0, uint32_t(bytes.size())});
  return Value::of(&strs_.back());
}

Value Heap::text(TextBuilder&& builder, bool safe) {
  charge(builder.marks.size() * sizeof(Mark));
  Value value = text(std::move(builder.bytes));
  strs_.back().marks = std::move(builder.marks);
  strs_.back().safe = safe;
  return value;
}

Value Heap::slice(const Str& source, size_t begin, size_t end) {
  if (begin == 0 && end == source.bytes.size()) return Value::of(&source);
  charge(sizeof(Str));
  tick(1 + source.marks.size());
  strs_.push_back({source.bytes.substr(begin, end - begin), {}, source.safe, -1});
  for (const Mark& mark : source.marks) {
    const size_t b = std::max<size_t>(mark.begin, begin), e = std::min<size_t>(mark.end, end);
    if (b < e) strs_.back().marks.push_back({uint32_t(b - begin), uint32_t(e - begin)});
  }
  return Value::of(&strs_.back());
}

Value Heap::seq(SeqKind kind, std::string_view type, std::vector<Value> items) {
  charge(sizeof(Seq) + items.size() * sizeof(Value));
  tick(1 + items.size());
  seqs_.push_back({kind, std::move(items), type, false});
  Value value;
  value.kind = Kind::Seq;
  value.seq = &seqs_.back();
  return value;
}

Value Heap::dict(Kind kind) {
  charge(sizeof(Dict));
  dicts_.emplace_back();
  Value value;
  value.kind = kind;
  value.dict = &dicts_.back();
  return value;
}

Value Heap::method(const Value& self, const Builtin* builtin) {
  charge(sizeof(Method));
  methods_.push_back({self, builtin});
  Value value;
  value.kind = Kind::Method;
  value.method = &methods_.back();
  return value;
}

Value Heap::macro(Macro macro) {
  charge(sizeof(Macro));
  macros_.push_back(macro);
  Value value;
  value.kind = Kind::Macro;
  value.macro = &macros_.back();
  return value;
}

Loop* Heap::loop(Loop loop) {
  charge(sizeof(Loop));
  loops_.push_back(loop);
  return &loops_.back();
}

std::string_view type_name(const Value& value) {
  switch (value.kind) {
    case Kind::Missing:
    case Kind::Undefined:
      return "Undefined";
    case Kind::None:
      return "NoneType";
    case Kind::Bool:
      return "bool";
    case Kind::Int:
      return "int";
    case Kind::Float:
      return "float";
    case Kind::Str:
      return value.str->safe ? "Markup" : "str";
    case Kind::Seq:
      return value.seq->type_name;
    case Kind::Dict:
      return "dict";
    case Kind::Namespace:
      return "Namespace";
    case Kind::Macro:
      return "Macro";
    case Kind::Function:
      return "function";
    case Kind::Method:
      return "builtin_function_or_method";
    case Kind::Loop:
      return "LoopContext";
  }
  return "object";
}

std::string object_name(const Value& value) {
  if (value.is(Kind::None)) return "'None'";
  return fmt::format("'{} object'", type_name(value));
}

void fail_undefined(const Value& value) {
  if (value.missing_name == nullptr) fail("an undefined value was used");
  if (value.owner == Kind::Missing) fail("'{}' is undefined", value.missing_name->bytes);
  Value owner;
  owner.kind = value.owner;
  Seq seq;
  Str str;
  if (owner.is(Kind::Seq)) {
    seq.type_name = value.owner_seq == SeqKind::Tuple ? "tuple" : "list";
    owner.seq = &seq;
  } else if (owner.is(Kind::Str)) {
    owner.str = &str;
  }
  fail("{} has no attribute '{}'", object_name(owner), value.missing_name->bytes);
}

size_t hash_value(const Value& value) {
  switch (value.kind) {
    case Kind::Str:
      return std::hash<std::string_view>{}(value.text());
    case Kind::Bool:
    case Kind::Int:
    case Kind::Float:
      return std::hash<double>{}(value.as_double());
    case Kind::Seq: {
      if (value.seq->kind == SeqKind::List) fail("unhashable type: 'list'");
      size_t hash = 0x345678;
      for (const Value& item : value.seq->items) {
        if (item.is(Kind::Seq)) fail("a tuple inside a tuple cannot be a key");
        hash = hash * 1000003 ^ hash_value(item);
      }
      return hash;
    }
    case Kind::Dict:
      fail("unhashable type: 'dict'");
    case Kind::Undefined:
    case Kind::None:
    case Kind::Missing:
      return size_t(value.kind);
    default:
      return std::hash<const void*>{}(value.dict);
  }
}

}  // namespace quern::jinja
