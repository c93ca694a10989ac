// How values look as text: Python's str(), repr() and json.dumps. Numbers included.
#pragma once
#include "text/jinja_value.h"

namespace quern::jinja {

std::string float_repr(double number);
/// str(value): what a template prints. Undefined gives nothing.
const Str* to_str(Heap& heap, const Value& value);
void append_str(Heap& heap, TextBuilder& out, const Value& value);
void append_repr(Heap& heap, TextBuilder& out, const Value& value, int depth = 0);

struct JsonStyle {
  bool ensure_ascii = false;
  bool indented = false;
  std::string indent;  ///< one level
  std::string item_separator = ", ", key_separator = ": ";
  bool sort_keys = false;
};
/// json.dumps(value). Text that holds input is marked as input from end to end.
Value to_json(Heap& heap, const Value& value, const JsonStyle& style);

}  // namespace quern::jinja
