// `quern template`: a rendered chat prompt, from a model's template, a file's or a built-in one, and nothing else on
// standard output.
#include <fmt/format.h>
#include <time.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/check.h"
#include "base/utf8.h"
#include "command.h"
#include "gguf/model_file.h"
#include "model_path.h"
#include "text/chat_format.h"
#include "text/chat_template.h"

namespace quern::cli {

namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string model, file, builtin, messages, tools, kwargs, bos, eos, now;
  bool no_generation_prompt = false, json = false;
  CLI::Option *bos_given = nullptr, *eos_given = nullptr;
};

std::string read_bytes(const std::string& path, std::string_view option) {
  std::FILE* file = path == "-" ? stdin : std::fopen(path.c_str(), "rb");
  if (!file) throw_error(ErrorKind::kUsage, "{} {}: cannot open the file: {}", option, path, std::strerror(errno));
  std::string bytes;
  char buffer[1 << 16];
  for (size_t n; (n = std::fread(buffer, 1, sizeof(buffer), file)) > 0;) bytes.append(buffer, n);
  const bool failed = std::ferror(file);
  const int reason = errno;
  if (file != stdin) std::fclose(file);
  if (failed) throw_error(ErrorKind::kUsage, "{} {}: cannot read the file: {}", option, path, std::strerror(reason));
  return bytes;
}

Json parse_json(std::string_view text, std::string_view where) {
  try {
    return Json::parse(text);
  } catch (const Json::exception& error) {
    std::string_view what = error.what();
    what.remove_prefix(std::min(what.find("] ") + 2, what.size()));
    throw_error(ErrorKind::kUsage, "{} is not valid JSON: {}", where, utf8_repair(what));
  }
}

Json read_messages(const std::string& path) {
  Json messages = parse_json(read_bytes(path, "--messages"), "--messages " + path);
  if (!messages.is_array()) {
    throw_error(ErrorKind::kUsage, "--messages {}: expected an array of messages, found {}", path,
                messages.type_name());
  }
  for (size_t i = 0; i < messages.size(); ++i) {
    if (!messages[i].is_object()) {
      throw_error(
          ErrorKind::kUsage,
          "--messages {}: message {} must be an object like {{\"role\": \"user\", \"content\": \"…\"}}, found {}", path,
          i, messages[i].type_name());
    }
  }
  return messages;
}

/// "2026-07-31", "2026-07-31T09:05" or "2026-07-31T09:05:00" (a space for the T will do), in local time.
std::tm parse_time(const std::string& text) {
  for (const char* format :
       {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M", "%Y-%m-%d"}) {
    std::tm time{};
    const char* end = strptime(text.c_str(), format, &time);
    if (end == nullptr || *end != '\0') continue;
    std::tm normal = time;
    if (timegm(&normal) == -1 || normal.tm_mday != time.tm_mday) break;  // 31 February
    return time;
  }
  throw_error(ErrorKind::kUsage, "--now: '{}' is not a time like 2026-07-31T09:05:00", text);
}

/// The text of the token that the key names, or nothing.
std::string token_text(const gguf::Header& header, std::string_view key) {
  const auto id = header.get_uint(key);
  const gguf::Array* tokens = header.get_array("tokenizer.ggml.tokens");
  if (!id || !tokens || *id >= tokens->strings.size()) return {};
  return std::string(tokens->strings[*id]);
}

/// The template's source; bos and eos too, when a model gives them.
std::string read_template(const Options& options, TemplateInputs& inputs) {
  if (!options.builtin.empty()) return std::string(builtin_template(options.builtin).source);
  if (!options.file.empty()) return read_bytes(options.file, "--template-file");
  const gguf::ModelFile model(find_model(options.model));
  const auto source = model.header().get_string("tokenizer.chat_template");
  if (!source) {
    throw_error(ErrorKind::kModel,
                "{}: the file has no chat template (key tokenizer.chat_template); give one by --template ({}) or "
                "--template-file",
                options.model, builtin_template_names());
  }
  inputs.bos_token = token_text(model.header(), "tokenizer.ggml.bos_token_id");
  inputs.eos_token = token_text(model.header(), "tokenizer.ggml.eos_token_id");
  return std::string(*source);
}

void print_pieces(const std::vector<RenderedPiece>& pieces) {
  Json out = Json::array();
  for (const RenderedPiece& piece : pieces) out.push_back({{"text", piece.text}, {"from_user", piece.from_user}});
  fmt::print("{}\n", out.dump(-1, ' ', false, Json::error_handler_t::replace));
}

void render(const Options& options) {
  if (int(!options.model.empty()) + int(!options.file.empty()) + int(!options.builtin.empty()) != 1) {
    throw_error(ErrorKind::kUsage, "template: give one of MODEL, --template-file FILE and --template NAME");
  }
  TemplateInputs inputs;
  inputs.messages = read_messages(options.messages);
  if (!options.tools.empty())
    inputs.tools = parse_json(read_bytes(options.tools, "--tools"), "--tools " + options.tools);
  if (!options.kwargs.empty()) inputs.extra = parse_json(options.kwargs, "--kwargs");
  if (!inputs.extra.is_object())
    throw_error(ErrorKind::kUsage, "--kwargs: expected an object like {{\"enable_thinking\": false}}, found {}",
                inputs.extra.type_name());
  if (!options.now.empty()) inputs.now = parse_time(options.now);
  inputs.add_generation_prompt = !options.no_generation_prompt;
  const std::string source = read_template(options, inputs);
  if (*options.bos_given) inputs.bos_token = options.bos;
  if (*options.eos_given) inputs.eos_token = options.eos;
  const ChatTemplate chat_template(source);
  if (options.json) return print_pieces(chat_template.render_pieces(inputs));
  const std::string text = chat_template.render(inputs);
  std::fwrite(text.data(), 1, text.size(), stdout);
}

}  // namespace

void add_template(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("template", "A chat prompt as a template renders it");
  command->add_option("MODEL", options->model, "GGUF file, or a name of the catalog, whose own template and BOS/EOS texts are used");
  command->add_option("--template-file", options->file, "A file with a Jinja template");
  command->add_option("--template", options->builtin, "A built-in template: " + builtin_template_names());
  command
      ->add_option("--messages", options->messages,
                   "JSON file with the messages: [{\"role\": …, \"content\": …}, …]; - reads standard input")
      ->required();
  command->add_option("--tools", options->tools, "JSON file for the variable tools");
  command->add_option("--kwargs", options->kwargs,
                      "JSON object of further variables, for example {\"enable_thinking\": false}");
  options->bos_given = command->add_option("--bos", options->bos, "Text of the beginning-of-sequence token");
  options->eos_given = command->add_option("--eos", options->eos, "Text of the end-of-sequence token");
  command->add_option("--now", options->now, "The time that strftime_now shows, like 2026-07-31T09:05:00");
  command->add_flag("--no-generation-prompt", options->no_generation_prompt,
                    "Leave out the opening of the assistant's turn");
  command->add_flag("--json", options->json,
                    "The text as a list of pieces that tell the template's own text from the input's");
  command->callback([options] { render(*options); });
}

}  // namespace quern::cli
