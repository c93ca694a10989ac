// The merging, the cutting at special tokens and the patterns against slow and obvious versions of themselves.
#include <catch2/catch.hpp>
#include <limits>
#include <map>

#include "base/rng.h"
#include "text/merge_queue.h"
#include "text/pretokenizer.h"
#include "text/special_tokens.h"
#include "text/tokenizer_fixture.h"

using namespace quern;
using namespace quern::test;

namespace {

std::string random_text(Rng& rng, std::span<const std::string> parts, size_t n_parts) {
  std::string out;
  for (size_t i = 0; i < n_parts; ++i) out += parts[rng.below(parts.size())];
  return out;
}

/// BPE as one would explain it: find the best pair, merge it, begin again.
std::vector<std::string> merge_slowly(std::vector<std::string> symbols, const std::map<std::string, double>& rank_of) {
  while (true) {
    size_t best = symbols.size();
    double best_rank = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto found = rank_of.find(symbols[i] + symbols[i + 1]);
      if (found != rank_of.end() && found->second < best_rank) best = i, best_rank = found->second;
    }
    if (best == symbols.size()) return symbols;
    symbols[best] += symbols[best + 1];
    symbols.erase(symbols.begin() + ptrdiff_t(best) + 1);
  }
}

std::vector<std::string> characters_of(const std::string& text) {
  std::vector<std::string> out;
  for (size_t at = 0; at < text.size(); at += out.back().size())
    out.push_back(text.substr(at, utf8_decode(text, at).n_bytes));
  return out;
}

std::vector<std::string> texts_of(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  std::vector<std::string> out;
  for (const TokenId id : ids) out.emplace_back(tokenizer.text(id));
  return out;
}

}  // namespace

TEST_CASE("scores are merged best first, left before right") {
  Rng rng(7);
  for (int round = 0; round < 60; ++round) {
    SmallVocab vocab = SmallVocab::sentence_piece();
    std::map<std::string, double> rank_of;
    // U+2581 is how a space is written; words are cut there only where no token reaches across.
    const std::vector<std::string> letters = {"a", "b", "c", "▁"};
    for (const std::string& letter : letters) vocab.add(letter, TokenKind::kNormal, -100);
    for (int i = 0; i < 25; ++i) {
      const std::string text = random_text(rng, letters, 2 + rng.below(4));
      if (rank_of.count(text)) continue;
      const float score = -float(rng.below(6));  // many equal scores
      vocab.add(text, TokenKind::kNormal, score);
      rank_of[text] = -score;
    }
    gguf::Writer writer = vocab.writer();
    writer.set("tokenizer.ggml.add_space_prefix", false);
    const WrittenTokenizer tokenizer(writer);
    for (int i = 0; i < 20; ++i) {
      const std::string text = random_text(rng, letters, rng.below(40));
      INFO(text);
      REQUIRE(texts_of(*tokenizer, tokenizer->encode(text, {})) == merge_slowly(characters_of(text), rank_of));
    }
  }
}

TEST_CASE("byte-level merges follow the order of the merge list") {
  Rng rng(8);
  for (int round = 0; round < 60; ++round) {
    SmallVocab vocab = SmallVocab::byte_level();
    std::map<std::string, double> rank_of;
    std::vector<std::string> known = {"a", "b", "c"};
    const std::vector<std::string> letters = known;
    for (int i = 0; i < 20; ++i) {
      const std::string left = known[rng.below(known.size())], right = known[rng.below(known.size())];
      // One split for each result, so that the rank of a text is the rank of its pair.
      if (rank_of.count(left + right) || left.size() + right.size() > 8) continue;
      rank_of[left + right] = double(vocab.merges.size());
      vocab.add_merge(left, right);
      known.push_back(left + right);
    }
    const WrittenTokenizer tokenizer(vocab.writer());
    // A pair whose text is known but whose split is another does not merge; the slow version has to be told.
    std::map<std::pair<std::string, std::string>, double> pair_rank;
    for (size_t i = 0; i < vocab.merges.size(); ++i) {
      const size_t blank = vocab.merges[i].find(' ');
      pair_rank[{vocab.merges[i].substr(0, blank), vocab.merges[i].substr(blank + 1)}] = double(i);
    }
    for (int i = 0; i < 20; ++i) {
      const std::string text = random_text(rng, letters, rng.below(40));
      std::vector<std::string> symbols = characters_of(text);
      while (true) {
        size_t best = symbols.size();
        double best_rank = std::numeric_limits<double>::infinity();
        for (size_t j = 0; j + 1 < symbols.size(); ++j) {
          const auto found = pair_rank.find({symbols[j], symbols[j + 1]});
          if (found != pair_rank.end() && found->second < best_rank) best = j, best_rank = found->second;
        }
        if (best == symbols.size()) break;
        symbols[best] += symbols[best + 1];
        symbols.erase(symbols.begin() + ptrdiff_t(best) + 1);
      }
      INFO(text);
      REQUIRE(texts_of(*tokenizer, tokenizer->encode(text, {})) == symbols);
    }
  }
}

namespace {

struct Piece {
  TokenId token;
  std::string text;
  bool operator==(const Piece&) const = default;
};

/// The reference's way: for one token after another, longest first, search all text that is left.
std::vector<Piece> partition_slowly(const text::Vocab& vocab, const std::string& text, bool parse_special) {
  std::vector<TokenId> ids;
  for (size_t i = 0; i < vocab.size(); ++i) {
    const uint16_t attributes = vocab.attributes(TokenId(i));
    const bool control = attributes & (text::kAttrControl | text::kAttrUnknown);
    if ((control && parse_special) || (!control && (attributes & text::kAttrUserDefined))) ids.push_back(TokenId(i));
  }
  std::stable_sort(ids.begin(), ids.end(),
                   [&](TokenId a, TokenId b) { return vocab.text(a).size() > vocab.text(b).size(); });
  std::vector<Piece> pieces;
  if (!text.empty()) pieces.push_back({kNoToken, text});
  for (const TokenId id : ids) {
    const std::string token(vocab.text(id));
    std::vector<Piece> next;
    for (const Piece& piece : pieces) {
      std::string rest = piece.text;
      if (piece.token != kNoToken) {
        next.push_back(piece);
        continue;
      }
      for (size_t at; (at = rest.find(token)) != std::string::npos;) {
        std::string left = rest.substr(0, at), right = rest.substr(at + token.size());
        if (vocab.attributes(id) & text::kAttrStripLeft) left.erase(left.find_last_not_of(" \n") + 1);
        if (vocab.attributes(id) & text::kAttrStripRight) {
          right.erase(0, std::min(right.find_first_not_of(" \n"), right.size()));
        }
        if (!left.empty()) next.push_back({kNoToken, left});
        next.push_back({id, ""});
        rest = right;
      }
      if (!rest.empty()) next.push_back({kNoToken, rest});
    }
    pieces = next;
  }
  return pieces;
}

}  // namespace

TEST_CASE("text is cut at special tokens as by a search for one after another, longest first") {
  Rng rng(9);
  const std::vector<std::string> letters = {"a", "b", "<", " ", "\n"};
  size_t n_tokens = 0;
  for (int round = 0; round < 200; ++round) {
    // At most one token of each length: between equally long ones that overlap, the reference's choice is an accident.
    SmallVocab small = SmallVocab::sentence_piece();
    for (size_t length = 1; length <= 6; ++length) {
      if (rng.below(3) == 0) continue;
      small.add(random_text(rng, letters, length), rng.below(2) ? TokenKind::kControl : TokenKind::kUserDefined);
    }
    const std::string bytes = small.writer().header();
    const gguf::Header header = gguf::parse(std::as_bytes(std::span(bytes)), false);
    text::Vocab vocab(header, text::VocabKind::kSentencePiece);
    for (size_t i = 259; i < vocab.size(); ++i) {
      if (rng.below(4) == 0) vocab.attributes(TokenId(i)) |= text::kAttrStripRight;
      if (rng.below(4) == 0) vocab.attributes(TokenId(i)) |= text::kAttrStripLeft;
    }
    const text::SpecialTokens special(vocab);
    for (int i = 0; i < 40; ++i) {
      const std::string text = random_text(rng, letters, rng.below(30));
      const bool parse_special = rng.below(2);
      std::vector<Piece> pieces;
      for (const auto& fragment : special.partition(text, parse_special)) {
        pieces.push_back({fragment.token, std::string(fragment.text)});
        n_tokens += fragment.token != kNoToken;
      }
      INFO("'" << text << "' parse_special " << parse_special);
      REQUIRE(pieces == partition_slowly(vocab, text, parse_special));
    }
  }
  CHECK(n_tokens > 10000);
}

TEST_CASE("the patterns rewritten for speed cut as the published ones do") {
  // As in the models' tokenizer.json, with Unicode's white space for \s.
  const std::string ws = R"([\x09-\x0d\x85\p{Z}])", not_ws = R"([^\x09-\x0d\x85\p{Z}])";
  const std::string tail = "| ?[^\\x09-\\x0d\\x85\\p{Z}\\p{L}\\p{N}]+[\\r\\n]*|" + ws + "*[\\r\\n]+|" + ws + "+(?!" +
                           not_ws + ")|" + ws + "+";
  const std::string contraction = "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])";
  const std::map<std::string, std::string> published = {
      {"llama-bpe", contraction + "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}" + tail},
      {"qwen2", contraction + "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" + tail},
      {"gpt-2", "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\x09-\\x0d\\x85\\p{Z}\\p{L}\\p{N}]+|" + ws + "+(?!" +
                    not_ws + ")|" + ws + "+"},
      {"bailingmoe",
       "'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\x09-\\x0d\\x85\\p{Z}"
       "\\p{L}\\p{N}]++[\\r\\n]*|" +
           ws + "*[\\r\\n]|" + ws + "+(?!" + not_ws + ")|" + ws + "+"}};
  const std::vector<std::string> parts = {" ",        " ", "\t", "\n",  "\r", "\xc2\xa0", "\xe3\x80\x80",
                                          "\xc2\x85", "a", "Z",  "é",   "中", "1",        "²",
                                          "!",        "'", "'s", "'LL", "😀",  "\xcc\x81", std::string(1, '\0')};
  Rng rng(10);
  for (const auto& [name, pattern] : published) {
    const std::string_view patterns[] = {pattern};
    const text::PreTokenizer slow({.name = name, .patterns = patterns});
    const text::PreTokenizer fast(*text::find_pre_tokenizer(name));
    for (int i = 0; i < 3000; ++i) {
      const std::string text = random_text(rng, parts, rng.below(14));
      std::vector<uint32_t> ends, wanted;
      fast.split(text, ends);
      slow.split(text, wanted);
      INFO(name << " on '" << text << "'");
      REQUIRE(ends == wanted);
    }
  }
}
