// Bad files: each gives its own message and status 3, none takes more memory than its size warrants.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <new>
#include <string>

#include "bad_gguf/cases.h"
#include "base/check.h"
#include "gguf/gguf.h"

using namespace quern;
using namespace quern::gguf::testing;

namespace {

/// The message parse() gives, or empty when it accepts the bytes. The bytes are copied to the heap's exact size, so
/// that the address sanitizer sees a read past the end.
std::string parse_message(const std::string& bytes) {
  const std::vector<char> exact(bytes.begin(), bytes.end());
  try {
    gguf::parse(as_bytes({exact.data(), exact.size()}));
  } catch (const Error& error) {
    CHECK(error.exit_status() == 3);
    return error.what();
  }
  return {};
}

void check_bad(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    const std::string message = parse_message(c.bytes);
    INFO(c.name << ": " << message);
    CHECK(!message.empty());
    CHECK(message.size() < 400);
    CHECK(message.find('\n') == std::string::npos);
    for (const std::string& part : c.message) {
      INFO("wanted: " << part);
      CHECK(message.find(part) != std::string::npos);
    }
  }
}

/// A good file with something of everything.
std::string rich_file() {
  File file = with_tensors({tensor("a", {32, 2}, 2, 0), tensor("b", {4, 1, 2}, 0, 64)}, 96);
  file.key_values.push_back(kv_u32("general.alignment", 32));
  file.key_values.push_back(kv("tokens", kArray, Bytes().u32(kString).u64(2).string("one").string("two")));
  file.key_values.push_back(kv("flags", kArray, Bytes().u32(kBool).u64(3).raw(std::string_view("\0\1\1", 3))));
  file.key_values.push_back(kv("scale", kF64, Bytes().number(0.25)));
  return file.bytes();
}

}  // namespace

TEST_CASE("good files near the bad ones are accepted") {
  for (const Case& c : good_cases()) {
    INFO(c.name);
    CHECK(parse_message(c.bytes) == "");
  }
  CHECK(parse_message(rich_file()) == "");
}

TEST_CASE("bad beginnings") {
  check_bad(preamble_cases());
}
TEST_CASE("bad metadata") {
  check_bad(metadata_cases());
}
TEST_CASE("bad tensor tables") {
  check_bad(tensor_cases());
}

TEST_CASE("a file cut off anywhere is an error, never a crash") {
  const std::string whole = rich_file();
  for (size_t n = 0; n < whole.size(); ++n) {
    INFO(n);
    REQUIRE(!parse_message(whole.substr(0, n)).empty());
  }
}

TEST_CASE("any byte may be anything") {
  const std::string whole = rich_file();
  int n_refused = 0;
  for (size_t i = 0; i < whole.size(); ++i) {
    for (const int value : {0x00, 0x01, 0x02, 0x08, 0x09, 0x20, 0x7f, 0x80, 0xff}) {
      std::string changed = whole;
      changed[i] = char(value);
      n_refused += !parse_message(changed).empty();
    }
  }
  CHECK(n_refused > 1000);
}

TEST_CASE("text from a file cannot write on the terminal") {
  CHECK(gguf::quoted("plain") == "'plain'");
  CHECK(gguf::quoted("\x1b[2J\n\x7f") == "'\\x1b[2J\\n\\x7f'");
  CHECK(gguf::quoted("\xff\xc3\xa9") == "'\\xff\xc3\xa9'");
  CHECK(gguf::quoted("\xc2\x9b") == "'\\xc2\\x9b'");  // a C1 control in UTF-8
  CHECK(gguf::quoted(std::string(100, 'x'), 10) == "'xxxxxxxxxx'… (100 bytes)");
}
