// A conversation is its tokens: however a history came about (turns, stopped and cut answers, /undo, /regen, a full context), the
// logits are those of the same ids fed cold in one prefill, bit for bit, and each turn computes only what is new.
#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "base/utf8.h"
#include "engine/engine_impl.h"
#include "quern/chat.h"
#include "temp_dir.h"

using namespace quern;
namespace fs = std::filesystem;

namespace {

/// A model and settings under which every scenario has to hold.
struct Setup {
  std::string name, file, chat_template, kv_type = "f16";
  bool real = false;
  size_t batch = 512;
};

const std::vector<Setup> kSetups = {
    {"tiny llama, chatml", "llama-q4_1", "chatml"},
    {"tiny llama, int8 cache, small steps", "llama", "zephyr", "int8", false, 32},
    {"tiny qwen2, llama3's template", "qwen2", "llama3"},
    {"tiny gemma3 (windows of 8)", "gemma3", "gemma", "f16", false, 64},
    {"SmolLM2", "SmolLM2-135M-Instruct.Q4_1.gguf", "", "f16", true},
    {"gemma-3-270m (windows of 512)", "gemma-3-270m-q4_k_m.gguf", "gemma", "f16", true, 128},
};

std::optional<fs::path> path_of(const Setup& setup) {
  if (!setup.real) return fs::path(QUERN_GOLDEN) / "tiny" / (setup.file + ".gguf");
  const fs::path path = fs::path(QUERN_MODELS) / setup.file;
  if (fs::exists(path)) return path;
  WARN("skipped: " << setup.file << " is not in models/; tools/test --models fetches it");
  return std::nullopt;
}

class Scene {
 public:
  explicit Scene(const Setup& setup, const fs::path& path, size_t n_ctx = 2048, OnFull on_full = OnFull::kTrim) {
    engine = Engine::load(path.string(), {.threads = setup.real ? 2 : 1, .mmap = true, .float_activations = false, .pre = {}});
    session_options.n_ctx = n_ctx;
    session_options.k_type = session_options.v_type = setup.kv_type;
    session_options.batch = setup.batch;
    ChatOptions chat_options;
    chat_options.chat_template = setup.chat_template;
    chat_options.on_full = on_full;
    conversation = std::make_unique<Conversation>(engine, session_options, chat_options);
    turn.sampling.temperature = 0;
    turn.n_predict = setup.real ? 8 : 24;
  }

  std::shared_ptr<Engine> engine;
  SessionOptions session_options;
  std::unique_ptr<Conversation> conversation;
  TurnOptions turn;

  Session& session() { return const_cast<Session&>(conversation->session()); }
  std::vector<TokenId> held() { return {session().tokens().begin(), session().tokens().end()}; }

  /// The cache is a beginning of the conversation, and what it says next is what a fresh session says.
  void check_like_cold() {
    const std::vector<TokenId> tokens = held();
    const std::vector<TokenId>& all = conversation->tokens();
    REQUIRE(tokens.size() <= all.size());
    REQUIRE(std::equal(tokens.begin(), tokens.end(), all.begin()));
    if (tokens.empty()) return;
    const auto cold = engine->new_session(session_options);
    REQUIRE(cold->sync(tokens) == StepStatus::kDone);
    // A step that was stopped leaves the cache before it and no logits; then the next token has to tell.
    if (session().impl().logits_at != tokens.size()) {
      auto next = tokens;
      next.push_back(tokens.back());
      REQUIRE(session().sync(next) == StepStatus::kDone);
      REQUIRE(cold->append(tokens.back()) == StepStatus::kDone);
    }
    REQUIRE(std::memcmp(cold->logits().data(), session().logits().data(), cold->logits().size_bytes()) == 0);
  }

  /// A turn of which only what is new may be computed: the prompt behind what the cache held and the new prompt keeps.
  Turn ask(const std::string& message) {
    const ChatPrompt prompt = conversation->preview(message);
    return checked(prompt, [&] { return conversation->ask(message, turn); });
  }

  template <class Produce>
  Turn checked(const ChatPrompt& prompt, const Produce& produce) {
    const std::vector<TokenId> before = held();
    const size_t common = std::min(size_t(std::mismatch(before.begin(), before.end(), prompt.tokens.begin(), prompt.tokens.end()).first - before.begin()), prompt.tokens.size() - 1);
    const Turn result = produce();
    if (result.reason == FinishReason::kInterrupted && result.text.empty()) return result;
    INFO("prompt of " << prompt.tokens.size() << ", cache of " << before.size() << ", common " << common);
    CHECK(result.stats.prefill_tokens + result.stats.reused_tokens == prompt.tokens.size());
    CHECK(result.stats.reused_tokens + result.stats.reread_tokens == common);
    const std::vector<TokenId>& now = conversation->tokens();
    CHECK(now.size() == prompt.tokens.size() + result.stats.decode_tokens);
    CHECK(std::equal(prompt.tokens.begin(), prompt.tokens.end(), now.begin()));
    check_like_cold();
    return result;
  }
};

/// Ways of leaving a turn.
void stop_while_answering(Scene& scene, const std::string& message, size_t after_pieces) {
  std::atomic<bool> cancelled{false};
  TurnOptions turn = scene.turn;
  turn.n_predict = 400;
  turn.ignore_end = true;
  turn.cancelled = &cancelled;
  size_t n = 0;
  turn.on_text = [&](std::string_view, bool) { cancelled = ++n >= after_pieces; };
  const Turn result = scene.conversation->ask(message, turn);
  CHECK(result.reason == FinishReason::kInterrupted);
  CHECK(result.kept);
}

std::string long_text(size_t n_words, int seed) {
  std::string text;
  for (size_t i = 0; i < n_words; ++i) text += "word" + std::to_string((i * 7919 + size_t(seed) * 31) % 97) + " ";
  return text;
}

enum class Models { kAll, kTiny };

template <class Scenario>
void for_each_setup(const Scenario& scenario, Models which = Models::kAll) {
  for (const Setup& setup : kSetups) {
    if (setup.real && which == Models::kTiny) continue;
    const auto path = path_of(setup);
    if (!path) continue;
    INFO(setup.name);
    scenario(setup, *path);
  }
}

}  // namespace

TEST_CASE("three turns have the logits of the same ids fed cold, and turns 2 and 3 prefill what is new alone") {
  for_each_setup([](const Setup& setup, const fs::path& path) {
    Scene scene(setup, path);
    scene.conversation->set_system("You answer in a few words.");
    scene.ask("Name three rivers of Europe, please.");
    for (const std::string message : {"Which of them is the longest?", "And where does it end? Naïve 東京 🙂"}) {
      const size_t held = scene.held().size();
      const Turn turn = scene.ask(message);
      CHECK(turn.stats.reread_tokens == 0);
      // A template that keeps an answer as it is keeps all tokens of the past.
      if (setup.chat_template.empty()) CHECK(turn.stats.reused_tokens == held);
      CHECK(turn.stats.reused_tokens > held / 2);
    }
    CHECK(scene.conversation->messages().size() == 6);
  });
}

TEST_CASE("an answer that was stopped is part of the past like any other") {
  for_each_setup([](const Setup& setup, const fs::path& path) {
    for (const size_t after : setup.real ? std::vector<size_t>{4} : std::vector<size_t>{1, 4, 9}) {
      Scene scene(setup, path);
      scene.ask("Say something.");
      stop_while_answering(scene, "Tell a long story.", after);
      scene.check_like_cold();
      scene.ask("Go on.");
      scene.ask("Thank you.");
    }
  });
}

TEST_CASE("an answer that was cut by the limit is part of the past like any other") {
  for_each_setup([](const Setup& setup, const fs::path& path) {
    for (const int n_predict : setup.real ? std::vector<int>{2} : std::vector<int>{1, 2, 7}) {
      Scene scene(setup, path);
      scene.turn.ignore_end = true;
      scene.turn.n_predict = n_predict;
      CHECK(scene.ask("Tell a long story.").reason == FinishReason::kLength);
      scene.turn.ignore_end = false;
      scene.turn.n_predict = 8;
      scene.ask("Go on.");
      scene.ask("Thank you.");
    }
  });
}

TEST_CASE("stopped by a stop text, the text is gone and the tokens follow the text") {
  for_each_setup([](const Setup& setup, const fs::path& path) {
    Scene scene(setup, path);
    const std::string unstopped = scene.ask("Name three rivers of Europe, please.").text;
    REQUIRE(unstopped.size() >= 8);
    scene.conversation->clear();
    scene.turn.stop = {unstopped.substr(4, 3)};
    const Turn turn = scene.ask("Name three rivers of Europe, please.");
    CHECK(turn.reason == FinishReason::kStop);
    std::string expected = unstopped.substr(0, unstopped.find(scene.turn.stop[0]));
    expected.resize(expected.size() - utf8_incomplete_tail(expected));
    CHECK(turn.text == expected);
    scene.turn.stop.clear();
    scene.ask("Go on.");
  }, Models::kTiny);
}

TEST_CASE("after /undo and /regen the cache is the one that the history says") {
  for_each_setup([](const Setup& setup, const fs::path& path) {
    Scene scene(setup, path);
    const std::string first = scene.ask("Name three rivers of Europe, please.").text;
    const std::string second = scene.ask("Which of them is the longest?").text;

    const size_t n_messages = scene.conversation->messages().size();
    const ChatPrompt again = [&] {
      const std::string message = *scene.conversation->undo();
      ChatPrompt prompt = scene.conversation->preview(message);
      return prompt;
    }();
    CHECK(scene.conversation->messages().size() == n_messages - 2);
    const Turn repeated = scene.ask("Which of them is the longest?");
    CHECK(repeated.text == second);
    CHECK(repeated.stats.prefill_tokens == 1);  // the prompt is known but for the logits of its last token

    const Turn regenerated = scene.checked(again, [&] { return scene.conversation->regenerate(scene.turn); });
    CHECK(regenerated.text == second);
    CHECK(regenerated.stats.prefill_tokens == 1);
    CHECK(scene.conversation->messages().size() == n_messages);

    scene.turn.sampling.temperature = 5;
    scene.turn.sampling.seed = 99;
    const Turn another = scene.checked(again, [&] { return scene.conversation->regenerate(scene.turn); });
    CHECK(another.text != second);
    scene.turn.sampling.temperature = 0;
    scene.ask("Why?");

    CHECK(scene.conversation->undo() == "Why?");
    CHECK(scene.conversation->undo() == "Which of them is the longest?");
    const Turn other = scene.ask("Which is the shortest?");
    CHECK(other.stats.reread_tokens == 0);
    CHECK(scene.conversation->undo() == "Which is the shortest?");
    CHECK(scene.conversation->undo() == "Name three rivers of Europe, please.");
    CHECK_FALSE(scene.conversation->undo());
    CHECK(scene.ask("Name three rivers of Europe, please.").text == first);
  });
}

TEST_CASE("a window model goes back over a long answer to the marks of the turn, and reads again where there is none") {
  for (const char* kv_type : {"f16", "int8"}) {
    const Setup setup{"tiny gemma3", "gemma3", "gemma", kv_type, false, 64};
    Scene scene(setup, *path_of(setup), 16384);
    scene.turn.ignore_end = true;
    scene.turn.n_predict = 20;
    for (const char* message : {"one", "two", "three"}) scene.ask(message);
    scene.turn.n_predict = 1500;  // the ring holds 512
    scene.ask("Tell a long story.");
    scene.turn.n_predict = 1400;
    const Turn again = scene.checked(
        [&] {
          const std::string message = *scene.conversation->undo();
          return scene.conversation->preview(message);
        }(),
        [&] { return scene.conversation->ask("Tell a long story.", scene.turn); });
    CHECK(again.stats.reread_tokens == 0);
    CHECK(again.stats.prefill_tokens == 1);
    CHECK(scene.conversation->undo() == "Tell a long story.");
    const Turn other = scene.ask("Tell another long story.");
    CHECK(other.stats.reused_tokens > 100);
    CHECK(other.stats.reread_tokens < 40);  // the marks that open a turn
    // Two turns back there is a mark as well.
    CHECK(scene.conversation->undo() == "Tell another long story.");
    CHECK(scene.conversation->undo() == "three");
    CHECK(scene.ask("drei").stats.reread_tokens < 40);
    // Further back than the marks reach, everything is read again, and said so.
    for (int i = 0; i < 8; ++i) scene.ask("More.");
    for (int i = 0; i < 8; ++i) scene.conversation->undo();
    const Turn far = scene.ask("Something else.");
    CHECK(far.stats.reread_tokens > 100);
    CHECK(far.stats.reused_tokens == 0);
  }
}

TEST_CASE("stopped while reading, nothing of the message stays but what the cache may keep") {
  for_each_setup([](const Setup& setup, const fs::path& path) {
    Scene scene(setup, path);
    scene.ask("Say something.");
    const auto messages = scene.conversation->messages().size();
    const std::string text = long_text(setup.real ? 100 : 60, 1);
    for (const size_t after_steps : {0, 1, 2}) {
      std::atomic<bool> cancelled{false};
      TurnOptions turn = scene.turn;
      turn.cancelled = &cancelled;
      size_t n = 0;
      turn.on_prefill = [&](size_t, size_t) { cancelled = n++ >= after_steps; };
      const Turn result = scene.conversation->ask(text, turn);
      if (result.reason != FinishReason::kInterrupted) continue;  // read in fewer steps than that
      CHECK_FALSE(result.kept);
      CHECK(scene.conversation->messages().size() == messages);
      scene.check_like_cold();
    }
    scene.ask("Something else.");
    scene.ask(text);
  });
}

TEST_CASE("stopped at any moment, by another thread, the cache stays one with the history") {
  for_each_setup([](const Setup& setup, const fs::path& path) {
    Scene scene(setup, path, 16384);
    scene.ask("Say something.");
    for (int i = 0; i < 20; ++i) {
      std::atomic<bool> cancelled{false};
      TurnOptions turn = scene.turn;
      turn.n_predict = 40;
      turn.ignore_end = true;
      turn.cancelled = &cancelled;
      std::thread other([&] {
        std::this_thread::sleep_for(std::chrono::microseconds(150 * i * i));
        cancelled = true;
      });
      const size_t before = scene.conversation->messages().size();
      const Turn result = scene.conversation->ask(long_text(20, i), turn);
      other.join();
      CHECK(scene.conversation->messages().size() == before + (result.kept ? 2 : 0));
      scene.check_like_cold();
      if (i % 3 == 2) scene.conversation->undo();
    }
    scene.ask("Go on.");
  }, Models::kTiny);
}

TEST_CASE("left by an exception in the middle of an answer, the cache stays one with the history") {
  const testing::TempDir folder;
  const std::string file = (folder.path / "s.quern").string();
  for_each_setup([&](const Setup& setup, const fs::path& path) {
    Scene scene(setup, path);
    scene.ask("Say something.");
    const size_t n_messages = scene.conversation->messages().size();
    TurnOptions turn = scene.turn;
    turn.n_predict = 40;
    turn.ignore_end = true;
    size_t n = 0;
    turn.on_text = [&](std::string_view, bool) { if (++n == 5) throw std::runtime_error("the reader is gone"); };
    CHECK_THROWS_AS(scene.conversation->ask("Something else.", turn), std::runtime_error);
    CHECK(scene.conversation->messages().size() == n_messages);
    scene.check_like_cold();
    n = 0;
    CHECK_THROWS_AS(scene.conversation->regenerate(turn), std::runtime_error);
    scene.conversation->save(file);
    Scene continued(setup, path);
    continued.conversation->restore(file);
    continued.ask("Go on.");
    scene.ask("Go on.");
  });
}

TEST_CASE("saved and continued, a conversation reads nothing again and says the same as one that never stopped") {
  const testing::TempDir folder;
  const std::string file = (folder.path / "s.quern").string();
  for_each_setup([&](const Setup& setup, const fs::path& path) {
    Scene whole(setup, path);
    whole.conversation->set_system("Be brief.");
    whole.ask("Name three rivers of Europe, please.");
    whole.ask("Which of them is the longest?");
    whole.conversation->save(file);

    Scene continued(setup, path);
    continued.ask("Something that was said before.");
    continued.conversation->restore(file);
    CHECK(continued.conversation->system() == "Be brief.");
    CHECK(continued.conversation->messages().size() == 4);
    CHECK(continued.conversation->tokens() == whole.conversation->tokens());
    const Turn there = whole.ask("Why?"), here = continued.ask("Why?");
    CHECK(here.text == there.text);
    CHECK(here.stats.prefill_tokens == there.stats.prefill_tokens);
    CHECK(here.stats.reused_tokens == there.stats.reused_tokens);
    CHECK(continued.conversation->undo() == "Why?");
    continued.ask("And?");
  });
}

TEST_CASE("a conversation that outgrows the context drops whole turns from its beginning, and goes on in the middle of an answer") {
  for_each_setup([](const Setup& setup, const fs::path& path) {
    Scene scene(setup, path, 600);
    scene.conversation->set_system("Be brief.");
    scene.turn.ignore_end = true;
    scene.turn.n_predict = 60;
    size_t n_trimmed = 0;
    scene.turn.on_trim = [&](size_t n) { n_trimmed += n; };
    for (int i = 0; i < 8; ++i) {
      const Turn turn = scene.conversation->ask("Question " + std::to_string(i) + ": " + long_text(6, i), scene.turn);
      CHECK(turn.reason == FinishReason::kLength);
      CHECK(scene.conversation->session().tokens().size() <= scene.session_options.n_ctx);
      scene.check_like_cold();
    }
    CHECK(n_trimmed > 0);
    CHECK(scene.conversation->n_dropped() == 2 * n_trimmed);
    CHECK(scene.conversation->messages().size() == 16);
    const ChatPrompt prompt = scene.conversation->preview("x");
    CHECK(prompt.text.find("Be brief.") != std::string::npos);
    CHECK(prompt.text.find("Question 0") == std::string::npos);
    CHECK(prompt.text.find("Question 7") != std::string::npos);
  }, Models::kTiny);
}

TEST_CASE("with --on-full stop nothing is dropped: the message is refused and the answer cut") {
  for_each_setup([](const Setup& setup, const fs::path& path) {
    Scene scene(setup, path, 256, OnFull::kStop);
    scene.turn.ignore_end = true;
    scene.turn.n_predict = -1;
    const Turn cut = scene.ask("Go on and on.");
    CHECK(cut.reason == FinishReason::kContext);
    CHECK(scene.conversation->n_dropped() == 0);
    CHECK_THROWS_WITH(scene.conversation->ask("And?", scene.turn), Catch::Contains("the context is full") && Catch::Contains("256") && Catch::Contains("--on-full trim"));
    CHECK(scene.conversation->messages().size() == 2);
    scene.check_like_cold();
    scene.conversation->undo();
    scene.turn.n_predict = 5;
    scene.ask("Short?");
  }, Models::kTiny);
}
