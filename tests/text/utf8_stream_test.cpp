// No output in the middle of a character.
#include "text/utf8_stream.h"

#include <catch2/catch.hpp>

#include "base/rng.h"
#include "base/utf8.h"

using namespace quern;

TEST_CASE("a character is given out when it is complete, not before") {
  Utf8Stream stream;
  CHECK(stream.push("a\xe2\x82") == "a");
  CHECK(stream.push("\xac z") == "€ z");
  CHECK(stream.push("\xf0") == "");
  CHECK(stream.push("\x9f") == "");
  CHECK(stream.push("\x98") == "");
  CHECK(stream.push("\x80") == "😀");
  CHECK(stream.finish() == "");
}

TEST_CASE("bytes that are no character become U+FFFD") {
  Utf8Stream stream;
  CHECK(stream.push("\xff"
                    "a\x80") ==
        "\xef\xbf\xbd"
        "a"
        "\xef\xbf\xbd");
  CHECK(stream.push("\xe2\x82") == "");
  CHECK(stream.push("x") == "\xef\xbf\xbd\xef\xbf\xbdx");
  CHECK(stream.push("\xf0\x9f") == "");
  CHECK(stream.finish() == "\xef\xbf\xbd\xef\xbf\xbd");
  CHECK(stream.finish() == "");
}

TEST_CASE("however the bytes are cut, the same text comes out") {
  Rng rng(5);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes;
    for (size_t n = rng.below(24); n > 0; --n) {
      if (rng.below(3) == 0)
        bytes += char(rng.below(256));
      else
        utf8_append(bytes, uint32_t(1 + rng.below(0xd000) * (1 + rng.below(20))));
    }
    Utf8Stream stream;
    std::string out;
    for (size_t at = 0; at < bytes.size();) {
      const size_t n = 1 + rng.below(3);
      out += stream.push(std::string_view(bytes).substr(at, n));
      CHECK(utf8_repair(out) == out);
      at += n;
    }
    out += stream.finish();
    REQUIRE(out == utf8_repair(bytes));
  }
}
