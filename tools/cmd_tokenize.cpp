// `quern tokenize`: text to token ids and pieces, and back. Text is taken byte for byte: no escapes, nothing trimmed.
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/utf8.h"
#include "command.h"
#include "gguf/model_file.h"
#include "json_line.h"
#include "model_path.h"
#include "text/tokenizer.h"

namespace quern::cli {

namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string model, pre;
  std::string text = "-";
  bool json = false, json_lines = false, decode = false, hide_special = false;
  EncodeOptions encode{.single_bos = false};  // shows what the vocabulary does; `run` is the one to be careful
};

std::string read_stdin() {
  std::string bytes;
  char buffer[1 << 16];
  for (size_t n; (n = std::fread(buffer, 1, sizeof(buffer), stdin)) > 0;) bytes.append(buffer, n);
  if (std::ferror(stdin)) throw_error(ErrorKind::kRuntime, "reading standard input failed");
  return bytes;
}

/// JSON holds only valid UTF-8, pieces may be part of a character: those bytes show as U+FFFD. `ascii`: other
/// characters are escaped, so that no reader takes U+2028 or U+0085 for the end of a line.
std::string dump(const Json& json, bool ascii) {
  return json.dump(-1, ' ', ascii, Json::error_handler_t::replace);
}

Json describe(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  Json pieces = Json::array();
  for (const TokenId id : ids) pieces.push_back(tokenizer.piece(id, true));
  return {{"ids", ids}, {"pieces", std::move(pieces)}};
}

void print_table(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  for (const TokenId id : ids) fmt::print("{:>8}  {}\n", id, dump(tokenizer.piece(id, true), false));
}

/// "1 2 3", "1,2,3", "[1, 2, 3]".
std::vector<TokenId> parse_ids(std::string_view text) {
  constexpr std::string_view kSeparators = " \t\r\n,[]";
  std::vector<TokenId> ids;
  for (size_t at = text.find_first_not_of(kSeparators); at != std::string_view::npos;
       at = text.find_first_not_of(kSeparators, at)) {
    TokenId id = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + at, end, id);
    if (error != std::errc() || (stop != end && kSeparators.find(*stop) == std::string_view::npos)) {
      const std::string_view word = text.substr(at, text.find_first_of(kSeparators, at) - at);
      throw_error(ErrorKind::kUsage, "--decode: {} is not a token id; expected numbers like 1 2 3 or 1,2,3",
                  gguf::quoted(word, 40));
    }
    ids.push_back(id);
    at = size_t(stop - text.data());
  }
  return ids;
}

void print_decoded(const Tokenizer& tokenizer, const Options& options, std::string_view ids) {
  const std::string text = tokenizer.decode(parse_ids(ids), !options.hide_special);
  if (options.json) return fmt::print("{}\n", dump(Json{{"text", text}}, true));
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (isatty(STDOUT_FILENO) && !text.ends_with('\n')) std::fputc('\n', stdout);
}

void answer_lines(const Tokenizer& tokenizer, const Options& options) {
  const std::string input = read_stdin();
  size_t number = 0;
  for (size_t begin = 0; begin < input.size();) {
    const size_t end = std::min(input.find('\n', begin), input.size());
    const std::string_view line = std::string_view(input).substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    if (options.decode) {
      fmt::print("{}\n", dump(Json{{"text", tokenizer.decode(parse_ids(line), !options.hide_special)}}, true));
    } else {
      const std::string text = parse_json_string(line, number);
      fmt::print("{}\n", dump(describe(tokenizer, tokenizer.encode(text, options.encode)), true));
    }
  }
}

void warn(const Tokenizer& tokenizer, const Options& options, std::string_view text, const std::vector<TokenId>& ids) {
  if (const size_t n = tokenizer.n_lost_bytes(text)) {
    fmt::print(stderr, "quern: warning: the vocabulary cannot express {} bytes of the text: they are lost\n", n);
  }
  if (!options.encode.add_special || !tokenizer.add_bos() || ids.size() < 2 || ids[1] != tokenizer.bos()) return;
  fmt::print(stderr, "quern: warning: the text begins with {} itself, so that there are two now\n",
             gguf::quoted(tokenizer.text(ids[1])));
}

void tokenize(const Options& options) {
  const gguf::ModelFile file(find_model(options.model));
  std::vector<std::string> warnings;
  const auto tokenizer = Tokenizer::from_gguf(file.header(), options.pre, &warnings);
  for (const std::string& warning : warnings) fmt::print(stderr, "quern: warning: {}\n", warning);
  if (options.json_lines) return answer_lines(*tokenizer, options);
  const std::string text = options.text == "-" ? read_stdin() : options.text;
  if (options.decode) return print_decoded(*tokenizer, options, text);
  const std::vector<TokenId> ids = tokenizer->encode(text, options.encode);
  warn(*tokenizer, options, text, ids);
  if (options.json)
    fmt::print("{}\n", dump(describe(*tokenizer, ids), true));
  else
    print_table(*tokenizer, ids);
}

}  // namespace

void add_tokenize(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("tokenize", "Text to token ids and pieces, and back");
  command->add_option("MODEL", options->model, "GGUF file (a vocabulary alone is enough), or a name of the catalog")->required();
  command->add_option("TEXT", options->text,
                      "The text, or ids with --decode; without it, or with -, standard input byte for byte");
  command->add_flag("--json", options->json, "One JSON object: {\"ids\":[...],\"pieces\":[...]}");
  command
      ->add_flag("--json-lines", options->json_lines,
                 "Many texts: a JSON string on each line of standard input, an object for each on standard output")
      ->excludes("TEXT");
  command->add_flag("--parse-special", options->encode.parse_special,
                    "Special tokens written in the text become those tokens");
  command->add_flag("--add-special", options->encode.add_special, "Add BOS and EOS where the file asks for them");
  command->add_flag("--decode", options->decode, "The other way: ids (1 2 3 or 1,2,3) to text");
  command->add_flag("--hide-special", options->hide_special, "With --decode: leave special tokens out");
  command->add_option("--pre", options->pre, "Pre-tokenizer to use instead of the file's tokenizer.ggml.pre");
  command->callback([options] { tokenize(*options); });
}

}  // namespace quern::cli
