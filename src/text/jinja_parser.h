// Source text to a Template. The grammar is jinja2's, with break, continue, do and generation; a tag or filter that is
// not known is refused with its name and line.
#pragma once
#include "text/jinja_ast.h"

namespace quern::jinja {

/// Parses into `out`. Nesting is bounded, so that no input overflows the stack here or in what walks the tree.
/// @throws Error(kModel)
void parse(std::string_view source, Template& out);

}  // namespace quern::jinja
