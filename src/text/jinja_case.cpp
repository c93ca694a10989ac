// Upper and lower case for the scripts that have it: rules by range and not a full Unicode table, since templates
// change the case of role names and JSON types.
#include <algorithm>
#include <iterator>

#include "base/utf8.h"
#include "text/jinja_text.h"

namespace quern::jinja {

namespace {

/// Code points in [first, last] whose lower case lies `offset` higher, or (offset 1 with pairs) alternates: even is
/// upper.
struct CaseRange {
  uint32_t first, last;
  uint32_t offset;
  uint32_t pairs;  ///< 0: a block; 1: upper is even; 2: upper is odd
};
constexpr CaseRange kUpperRanges[] = {
    {'A', 'Z', 32, 0},        {0xC0, 0xD6, 32, 0},    {0xD8, 0xDE, 32, 0},     {0x100, 0x12F, 1, 1},
    {0x132, 0x137, 1, 1},     {0x139, 0x148, 1, 2},   {0x14A, 0x177, 1, 1},    {0x179, 0x17E, 1, 2},
    {0x1CD, 0x1DC, 1, 2},     {0x1DE, 0x1EF, 1, 1},   {0x1F8, 0x21F, 1, 1},    {0x222, 0x233, 1, 1},
    {0x370, 0x373, 1, 1},     {0x388, 0x38A, 37, 0},  {0x391, 0x3A1, 32, 0},   {0x3A3, 0x3AB, 32, 0},
    {0x3D8, 0x3EF, 1, 1},     {0x400, 0x40F, 80, 0},  {0x410, 0x42F, 32, 0},   {0x460, 0x481, 1, 1},
    {0x48A, 0x4BF, 1, 1},     {0x4C1, 0x4CE, 1, 2},   {0x4D0, 0x52F, 1, 1},    {0x531, 0x556, 48, 0},
    {0x1E00, 0x1E95, 1, 1},   {0x1EA0, 0x1EFF, 1, 1}, {0x24B6, 0x24CF, 26, 0}, {0xFF21, 0xFF3A, 32, 0},
    {0x10400, 0x10427, 40, 0}};

void append_upper(std::string& out, uint32_t p) {
  if (p == 0xDF) {
    out += "SS";
  } else {
    utf8_append(out, to_upper(p));
  }
}

bool ends_title_word(std::string_view c) {
  return space_length(c, 0) != 0 || c == "-" || c == "(" || c == "{" || c == "[" || c == "<";
}

}  // namespace

uint32_t to_lower(uint32_t p) {
  if (p == 0x178) return 0xFF;
  if (p == 0x386) return 0x3AC;
  if (p == 0x38C) return 0x3CC;
  if (p == 0x38E || p == 0x38F) return p + 63;
  if (p == 0x1E9E) return 0xDF;
  for (const CaseRange& range : kUpperRanges) {
    if (p < range.first || p > range.last) continue;
    if (range.pairs == 0) return p + range.offset;
    return (p % 2 == 0) == (range.pairs == 1) ? p + 1 : p;
  }
  return p;
}

uint32_t to_upper(uint32_t p) {
  if (p == 0xFF) return 0x178;
  if (p == 0xB5) return 0x39C;
  if (p == 0x131) return 'I';
  if (p == 0x17F) return 'S';
  if (p == 0x3C2) return 0x3A3;
  if (p == 0x3AC) return 0x386;
  if (p == 0x3CC) return 0x38C;
  if (p == 0x3CD || p == 0x3CE) return p - 63;
  for (const CaseRange& range : kUpperRanges) {
    if (range.pairs == 0) {
      if (p >= range.first + range.offset && p <= range.last + range.offset && p != 0xF7) return p - range.offset;
    } else if (p >= range.first && p <= range.last) {
      return (p % 2 == 0) == (range.pairs == 1) ? p : p - 1;
    }
  }
  return p;
}

bool is_letter(uint32_t p) {
  if (p < 0x80) return (p >= 'A' && p <= 'Z') || (p >= 'a' && p <= 'z');
  if (p < 0xC0) return p == 0xAA || p == 0xB5 || p == 0xBA;
  if (p == 0xD7 || p == 0xF7) return false;
  if (p >= 0x2000 && p < 0x2C00) return p == 0x2071 || p == 0x207F || (p >= 0x2090 && p <= 0x209C) || (p >= 0x2C00);
  if (p >= 0x3000 && p < 0x3005) return false;
  return p < 0xE000 || (p >= 0xF900 && p < 0x1F000) || p >= 0x20000;
}

Value change_case(Heap& heap, const Str& text, Case how) {
  bool word_start = true;
  return map_chars(heap, text, [&](std::string_view c, std::string& out) {
    const Utf8Char decoded = utf8_decode(c, 0);
    if (!decoded.valid) {
      out += c;
      return;
    }
    const uint32_t p = decoded.code_point;
    const uint32_t lower = to_lower(p), upper = to_upper(p);
    switch (how) {
      case Case::Upper:
        append_upper(out, p);
        return;
      case Case::Lower:
        utf8_append(out, lower);
        return;
      case Case::Swap:
        utf8_append(out, lower != p ? lower : upper);
        return;
      case Case::Capitalize:
        utf8_append(out, word_start ? upper : lower);
        break;
      case Case::Title:
      case Case::TitleFilter:
        utf8_append(out, word_start ? upper : lower);
        break;
    }
    if (how == Case::Capitalize) word_start = false;
    if (how == Case::Title) word_start = !is_letter(p);
    if (how == Case::TitleFilter) word_start = ends_title_word(c);
  });
}

}  // namespace quern::jinja
