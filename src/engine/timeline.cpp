// Comparing what was with what is rendered now, byte by byte and hand by hand.
#include "engine/timeline.h"

#include <algorithm>

namespace quern {
namespace {

constexpr char kTemplate = 't', kUser = 'u';
// A model's text stands where the next prompt has the message it became; a template may have written a space of it itself.
constexpr char kModel = 'm';

std::string marks_of(const MarkedText& rendered) {
  std::string marks(rendered.text.size(), kTemplate);
  for (const ByteRange& range : rendered.plain) std::fill(marks.begin() + ptrdiff_t(range.begin), marks.begin() + ptrdiff_t(range.end), kUser);
  return marks;
}

}  // namespace

Timeline::Place Timeline::common(const MarkedText& rendered) const {
  const std::string marks = marks_of(rendered);
  const size_t n = std::min(parts_.text.size(), rendered.text.size());
  size_t same = 0;
  while (same < n && parts_.text[same] == rendered.text[same] && (parts_.marks[same] == marks[same] || parts_.marks[same] == kModel)) ++same;
  Place last;
  for (const Place& place : parts_.places) {
    if (place.bytes <= same) last = place;
  }
  return last;
}

void Timeline::extend(Place keep, const MarkedText& rendered, std::span<const TokenId> rest) {
  parts_.tokens.resize(keep.tokens);
  parts_.tokens.insert(parts_.tokens.end(), rest.begin(), rest.end());
  parts_.text = rendered.text;
  parts_.marks = marks_of(rendered);
  while (!parts_.places.empty() && parts_.places.back().tokens > keep.tokens) parts_.places.pop_back();
  parts_.places.push_back({parts_.text.size(), parts_.tokens.size()});
}

void Timeline::generated(TokenId id, std::string_view bytes, bool control) {
  parts_.tokens.push_back(id);
  parts_.text += bytes;
  parts_.marks.append(bytes.size(), control ? kTemplate : kModel);
  parts_.places.push_back({parts_.text.size(), parts_.tokens.size()});
}

void Timeline::clear() { *this = Timeline(); }

}  // namespace quern
