// What a session file keeps of a conversation: everything comes back, and no bytes of anybody's do harm.
#include "engine/conversation_state.h"

#include <catch2/catch.hpp>

#include "base/rng.h"
#include "quern/error.h"

using namespace quern;

namespace {

ConversationState sample() {
  ConversationState state;
  state.system = "Be brief.";
  state.template_name = "built-in chatml";
  state.thinking = false;
  state.messages = {{"user", "a\nb"}, {"assistant", "bytes that are no text: \xff\xc3"}, {"user", "c"}, {"assistant", ""}};
  state.first = 2;
  const std::string text = "<user>a<assistant>";
  const ByteRange user{6, 7};
  state.timeline.extend({}, {text, std::span(&user, 1)}, std::vector<TokenId>{5, 6, 7});
  state.timeline.generated(8, "\xff", false);
  state.timeline.generated(9, "</s>", true);
  return state;
}

}  // namespace

TEST_CASE("a conversation's state comes back as it was") {
  const ConversationState state = sample(), got = decode_state(encode_state(state), 10);
  CHECK(got.system == state.system);
  CHECK(got.template_name == state.template_name);
  CHECK(got.thinking == state.thinking);
  REQUIRE(got.messages.size() == 4);
  CHECK(got.messages[1].content == state.messages[1].content);
  CHECK(got.messages[3].role == "assistant");
  CHECK(got.first == 2);
  const Timeline::Parts &a = state.timeline.parts(), &b = got.timeline.parts();
  CHECK(a.tokens == b.tokens);
  CHECK(a.text == b.text);
  CHECK(a.marks == b.marks);
  REQUIRE(a.places.size() == b.places.size());
  for (size_t i = 0; i < a.places.size(); ++i) CHECK((a.places[i].bytes == b.places[i].bytes && a.places[i].tokens == b.places[i].tokens));
  ConversationState none = sample();
  none.thinking.reset();
  CHECK_FALSE(decode_state(encode_state(none), 10).thinking.has_value());
}

TEST_CASE("tokens of another vocabulary are refused") {
  CHECK_THROWS_WITH(decode_state(encode_state(sample()), 9), Catch::Contains("token 9") && Catch::Contains("0 to 8"));
}

TEST_CASE("changed bytes are refused or give a state that is sound") {
  const std::string whole = encode_state(sample());
  Rng rng(1);
  size_t n_refused = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = whole;
    for (uint64_t n = 1 + rng.below(3); n > 0; --n) bytes[rng.below(bytes.size())] = char(rng.below(256));
    if (rng.below(4) == 0) bytes.resize(rng.below(bytes.size()));
    try {
      const ConversationState state = decode_state(bytes, 10);
      CHECK(state.first <= state.messages.size());
      CHECK(state.timeline.parts().marks.size() == state.timeline.parts().text.size());
      state.timeline.common({"<user>a<assistant>", {}});
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::kRuntime);
      ++n_refused;
    }
  }
  CHECK(n_refused > 10000);
}
