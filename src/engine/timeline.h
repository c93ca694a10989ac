// The tokens of a conversation beside the text they stand for: decides how much of them a newly rendered prompt can keep.
// Knows nothing of models, templates or caches.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace quern {

/// A text with the ranges that people wrote.
struct MarkedText {
  std::string_view text;
  std::span<const ByteRange> plain;
};

class Timeline {
 public:
  /// A place where tokens and text can be cut together.
  struct Place {
    size_t bytes = 0, tokens = 0;
  };

  /// All that a timeline is.
  struct Parts {
    std::vector<TokenId> tokens;
    std::string text;
    std::string marks;           ///< one a byte of the text: who wrote it
    std::vector<Place> places;   ///< ascending
  };

  Timeline() = default;
  explicit Timeline(Parts parts) : parts_(std::move(parts)) {}
  const Parts& parts() const { return parts_; }
  const std::vector<TokenId>& tokens() const { return parts_.tokens; }

  /// The last place up to which `rendered` says the same, written by the same hands: what a user typed never passes for a mark
  /// of the template that reads alike. {0, 0}: nothing can be kept.
  Place common(const MarkedText& rendered) const;
  /// From now on the timeline stands for `rendered`: tokens up to `keep` stay, `rest` follows.
  void extend(Place keep, const MarkedText& rendered, std::span<const TokenId> rest);
  /// A token that the model generated, its bytes, and whether it is a control token.
  void generated(TokenId id, std::string_view bytes, bool control);
  void clear();

 private:
  Parts parts_;
};

}  // namespace quern
