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
  const size_t n = std::min(text_.size(), rendered.text.size());
  size_t same = 0;
  while (same < n && text_[same] == rendered.text[same] && (marks_[same] == marks[same] || marks_[same] == kModel)) ++same;
  Place last;
  for (const Place& place : places_) {
    if (place.bytes <= same) last = place;
  }
  return last;
}

void Timeline::extend(Place keep, const MarkedText& rendered, std::span<const TokenId> rest) {
  tokens_.resize(keep.tokens);
  tokens_.insert(tokens_.end(), rest.begin(), rest.end());
  text_ = rendered.text;
  marks_ = marks_of(rendered);
  while (!places_.empty() && places_.back().tokens > keep.tokens) places_.pop_back();
  places_.push_back({text_.size(), tokens_.size()});
}

void Timeline::generated(TokenId id, std::string_view bytes, bool control) {
  tokens_.push_back(id);
  text_ += bytes;
  marks_.append(bytes.size(), control ? kTemplate : kModel);
  places_.push_back({text_.size(), tokens_.size()});
}

void Timeline::clear() { *this = Timeline(); }

}  // namespace quern
