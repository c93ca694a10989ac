// Thinking told from the answer in text that comes in pieces, and thinking that a template drops from the history.
#include "engine/think_split.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "quern/chat.h"
#include "temp_dir.h"

using namespace quern;
namespace fs = std::filesystem;

namespace {

/// Thinking in brackets, whatever pieces it came in.
std::string split(const std::string& text, size_t piece, bool thinking = false) {
  std::string out;
  bool inside = false;
  ThinkSplit splitter(
      [&](std::string_view part, bool is_thinking) {
        if (is_thinking != inside) out += is_thinking ? "[" : "]";
        inside = is_thinking;
        out += part;
      },
      thinking);
  for (size_t at = 0; at < text.size(); at += piece) splitter.add(std::string_view(text).substr(at, piece));
  splitter.finish();
  return out + (inside ? "]" : "");
}

}  // namespace

TEST_CASE("thinking is told from the answer, in pieces of any size") {
  for (size_t piece = 1; piece < 40; ++piece) {
    INFO("pieces of " << piece);
    CHECK(split("a<think>b</think>c", piece) == "a[<think>b</think>]c");
    CHECK(split("b</think>c<think>d", piece, true) == "[b</think>]c[<think>d]");
    CHECK(split("no <thin and </think> alone <think", piece) == "no <thin and </think> alone <think");
    CHECK(split("<<think><think></</think></think>", piece) == "<[<think><think></</think>]</think>");
    CHECK(split("", piece) == "");
  }
}

TEST_CASE("a prompt that ends in an open <think> begins the answer with thinking") {
  CHECK(opens_thinking("x<think>\n"));
  CHECK(opens_thinking("<think></think><think>"));
  CHECK_FALSE(opens_thinking("<think>\n\n</think>\n\n"));
  CHECK_FALSE(opens_thinking("<think> x"));
  CHECK_FALSE(opens_thinking(""));
}

TEST_CASE("thinking leaves the history where the template drops it, and the cache is cut there") {
  const testing::TempDir folder;
  const std::string file = (folder.path / "think.jinja").string();
  std::ofstream(file) << "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' %}{{ m.content.split('</think>')[-1] }}{% else %}{{ m.content }}{% endif %}{% endfor %}<assistant>";
  const auto engine = Engine::load((fs::path(QUERN_GOLDEN) / "tiny/llama.gguf").string(), {.threads = 1, .mmap = true, .float_activations = false, .pre = {}});
  SessionOptions session;
  session.n_ctx = 1024;
  ChatOptions options;
  options.chat_template = file;
  Conversation conversation(engine, session, options);
  conversation.set_messages({{"user", "q"}, {"assistant", "<think>long thoughts</think>answer"}});
  CHECK(conversation.preview("next").text == "<user>q<assistant>answer<user>next<assistant>");
  CHECK(conversation.messages()[1].content == "<think>long thoughts</think>answer");
  TurnOptions turn;
  turn.n_predict = 4;
  turn.ignore_end = true;
  conversation.ask("next", turn);
  CHECK(conversation.session().tokens().size() < 60);
}
