// `quern run`: one prompt to one answer. The generated text alone goes to stdout; everything else goes to stderr.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "command.h"
#include "files.h"
#include "interrupt.h"
#include "json_line.h"
#include "model_options.h"
#include "report_text.h"
#include "sampling_options.h"
#include "write_out.h"

namespace quern::cli {
namespace {

constexpr size_t kDefaultPredict = 512;

struct Options {
  ModelOptions model;
  std::string dash;                       ///< a lone "-" after the model
  std::optional<std::string> prompt, file, system;
  int64_t n_predict = -2;                 ///< −2: not given
  bool raw = false, escape = false, json = false, ignore_eos = false, no_report = false;
  bool dump_prompt = false, dump_tokens = false;
  std::string report = "text", chat_template, session_file;
  SamplingFlags flags;
  SamplingOptions sampling;               ///< what the flags say
  std::vector<std::string> stop;
};

/// \n \t \r \\ \" \' and \xHH, for those who ask.
std::string unescape(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out += text[i];
      continue;
    }
    const char c = text[++i];
    if (c == 'n') out += '\n';
    else if (c == 't') out += '\t';
    else if (c == 'r') out += '\r';
    else if (c == 'x' && i + 2 < text.size() && std::isxdigit(uint8_t(text[i + 1])) && std::isxdigit(uint8_t(text[i + 2]))) {
      out += char(std::stoi(text.substr(i + 1, 2), nullptr, 16));
      i += 2;
    } else if (c == '\\' || c == '"' || c == '\'') out += c;
    else out += {'\\', c};
  }
  return out;
}

/// The prompt's bytes as the user gave them: an argument, a file, or standard input.
std::string read_prompt(const Options& o) {
  if (o.prompt) return o.escape ? unescape(*o.prompt) : *o.prompt;
  std::string text;
  if (o.file && *o.file != "-") {
    text = read_text(*o.file);
  } else {
    if (!o.file && o.dash.empty() && ::isatty(STDIN_FILENO)) throw Error(ErrorKind::kUsage, "no prompt: give -p TEXT, -f FILE, or pipe one in");
    text = read_all(stdin, "standard input");
  }
  return o.escape ? unescape(text) : text;
}

struct Prompt {
  std::vector<TokenId> tokens;
  std::string text;
};

Prompt make_prompt(const Options& o, const Engine& engine) {
  const std::string text = read_prompt(o);
  if (o.raw) return {engine.tokenize(text, true, true), text};
  if (text.empty()) throw Error(ErrorKind::kUsage, "the prompt is empty");
  std::vector<ChatMessage> messages;
  if (o.system) messages.push_back({"system", *o.system});
  messages.push_back({"user", text});
  ChatPrompt chat = engine.chat_prompt(messages, o.chat_template);
  if (chat.system_folded && !o.model.quiet) fmt::print(stderr, "quern: this model's template has no system role; the system text went into the user turn\n");
  return {std::move(chat.tokens), std::move(chat.text)};
}

void print_ids(const std::vector<TokenId>& ids) {
  for (size_t i = 0; i < ids.size(); ++i) fmt::print("{}{}", i ? " " : "", ids[i]);
  fmt::print("\n");
}

/// The context when -c is not given: what the prompt and the answer need, at most what the model was trained for, which it is for a
/// session file.
size_t needed_context(const Options& o, size_t n_prompt, size_t n_ctx_train) {
  if (!o.session_file.empty()) return n_ctx_train;  // what it holds, and what later runs add: free until filled
  const size_t answer = o.n_predict >= 0 ? size_t(o.n_predict) : kDefaultPredict;
  return std::max<size_t>(1, std::min(n_prompt + answer, n_ctx_train));
}

void print_report(const Options& o, const Session& session) {
  if (o.no_report) return;
  if (o.report == "json") fmt::print(stderr, "{}\n", kv_report_json(session.report(), session.timings()).dump());
  else if (!o.model.quiet) fmt::print(stderr, "\n{}", kv_report_text(session.report(), session.timings(), ::isatty(STDERR_FILENO)));
}

/// What happened to the session file of this run.
struct SessionFile {
  RestoredSession restored;
  size_t reused = 0;                      ///< of the restored tokens, those that the prompt begins with
  SavedSession saved;
};

/// Said before the work, not behind it.
void check_session_place(const std::string& path) {
  if (path.empty()) return;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (::access(folder.empty() ? "." : folder.c_str(), W_OK) != 0) throw Error(ErrorKind::kUsage, fmt::format("--session: '{}' could not be saved: its folder: {}", path, std::strerror(errno)));
}

void restore(const Options& o, Session& session, SessionFile& file) {
  std::error_code ignored;
  const auto size = std::filesystem::file_size(o.session_file, ignored);
  if (!o.session_file.empty() && std::filesystem::exists(o.session_file, ignored) && size > 0) file.restored = session.restore(o.session_file);
  if (!file.restored.extra.empty()) throw Error(ErrorKind::kUsage, fmt::format("session file '{}' holds a conversation of quern chat, which this run would replace; choose another name", o.session_file));
}

void print_session_file(const Options& o, const SessionFile& file) {
  if (o.session_file.empty() || o.model.quiet || o.json) return;
  if (file.restored.n_tokens > 0) {
    fmt::print(stderr, "quern: session: {} tokens restored from '{}' in {:.1f} ms ({}), {} of them re-used for this prompt\n", file.restored.n_tokens, o.session_file, file.restored.ms, bytes_text(file.restored.n_bytes), file.reused);
  }
  fmt::print(stderr, "quern: session: {} tokens saved to '{}' in {:.1f} ms ({})\n", file.saved.n_tokens, o.session_file, file.saved.ms, bytes_text(file.saved.n_bytes));
}

nlohmann::ordered_json session_json(const Options& o, const SessionFile& file) {
  if (o.session_file.empty()) return nullptr;
  return {{"file", o.session_file}, {"restored_tokens", file.restored.n_tokens}, {"reused_tokens", file.reused}, {"restore_ms", file.restored.ms}, {"saved_tokens", file.saved.n_tokens}, {"saved_bytes", file.saved.n_bytes}, {"save_ms", file.saved.ms}};
}

void print_json(const Options& o, const Engine& engine, const Session& session, const Prompt& prompt, const GenerateResult& result, const SessionFile& file) {
  Timings timings = session.timings();
  timings.load_ms = engine.load_ms();
  const nlohmann::ordered_json json = {{"text", result.text},
                                       {"tokens", result.tokens},
                                       {"prompt_tokens", prompt.tokens},
                                       {"finish_reason", finish_reason_name(result.reason)},
                                       {"seed", o.sampling.seed},
                                       {"threads", engine.threads()},
                                       {"isa", engine.isa()},
                                       {"session", session_json(o, file)},
                                       {"timings", timings_json(timings)},
                                       {"kv", kv_report_json(session.report(), session.timings())}};
  fmt::print("{}\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

void run(Options& o) {
  const std::atomic<bool>& cancelled = interrupt_flag();
  check_session_place(o.session_file);
  const auto engine = o.model.load();
  const Prompt prompt = make_prompt(o, *engine);
  if (o.dump_tokens) return print_ids(prompt.tokens);
  if (o.dump_prompt) return write_out(prompt.text);

  const size_t n_ctx_train = engine->info().n_ctx_train;
  const SessionOptions session_options = o.model.session(needed_context(o, prompt.tokens.size(), n_ctx_train));
  if (!o.model.kv_window && prompt.tokens.size() > session_options.n_ctx) {
    throw Error(ErrorKind::kUsage, fmt::format("the prompt has {} tokens, but the context holds {}{}; give a larger -c or a shorter prompt", prompt.tokens.size(), session_options.n_ctx,
                                               o.model.n_ctx ? "" : " (all that the model was trained for)"));
  }
  check_context(o.model, session_options, *engine);
  const auto session = engine->new_session(session_options);
  SessionFile file;
  restore(o, *session, file);

  GenerateOptions options;
  options.n_predict = o.n_predict == -2 ? int(kDefaultPredict) : int(o.n_predict);
  options.sampling = o.sampling;
  options.stop = o.stop;
  options.ignore_end = o.ignore_eos;
  options.cancelled = &cancelled;
  if (!o.json) options.on_text = write_out;

  GenerateResult result;
  result.reason = FinishReason::kInterrupted;
  if (session->sync(prompt.tokens, &cancelled) == StepStatus::kDone) result = generate(*engine, *session, options);

  file.reused = session->timings().reused_tokens;
  if (!o.session_file.empty()) file.saved = session->save(o.session_file);

  if (o.json) print_json(o, *engine, *session, prompt, result, file);
  else if (!result.text.empty() && result.text.back() != '\n' && ::isatty(STDOUT_FILENO)) write_out("\n");
  if (!o.model.quiet && !o.json) {
    if (result.reason == FinishReason::kContext) fmt::print(stderr, "\nquern: context full after {} tokens; give a larger -c to go on, or --kv-window to forget the oldest tokens\n", session->tokens().size());
    if (o.sampling.temperature > 0) fmt::print(stderr, "\nquern: seed {}\n", o.sampling.seed);
  }
  print_session_file(o, file);
  print_report(o, *session);
  if (result.reason == FinishReason::kInterrupted) throw Error(ErrorKind::kInterrupted, "interrupted");
}

void add_prompt_options(CLI::App& command, Options& o) {
  command.add_option("DASH", o.dash, "'-' reads the prompt from standard input")->check(CLI::IsMember({"-"}));
  auto* prompt = command.add_option("-p,--prompt", o.prompt, "The prompt");
  command.add_option("-f,--file", o.file, "A file that holds the prompt, byte for byte ('-': standard input)")->excludes(prompt);
  command.add_flag("-e,--escape", o.escape, "Understand \\n, \\t, \\xHH and the like in the prompt");
  auto* raw = command.add_flag("--raw", o.raw, "Give the prompt to the model as it is, without a chat template");
  command.add_option("--system", o.system, "System text for the chat template")->excludes(raw);
  command.add_option("--template", o.chat_template, "Chat template: a built-in name or a file, in place of the model's own")->excludes(raw);
  command.add_option("-n,--predict", o.n_predict, "Most tokens to generate (default 512; -1: until the end or the context is full)")->check(CLI::Range(int64_t(-1), int64_t(1) << 30));
  command.add_option("--stop", o.stop, "A text that ends the answer (may be given several times)")->expected(1)->take_all();
  command.add_flag("--ignore-eos", o.ignore_eos, "Do not stop at the model's end tokens");
  command.add_flag("--dump-prompt", o.dump_prompt, "Print the exact prompt and stop");
  command.add_flag("--dump-tokens", o.dump_tokens, "Print the prompt's token ids and stop");
}

}  // namespace

void add_run(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("run", "One prompt to one answer");
  add_model_options(*command, o->model);
  add_prompt_options(*command, *o);
  add_sampling_options(*command, o->flags);
  add_cache_options(*command, o->model);
  auto* session = command->add_option("--session", o->session_file, "A file that keeps the cache: restored where it exists, and saved at the end; a prompt that begins like the last one is not read again")->check(kNotEmpty);
  command->get_option("--kv-evict")->excludes(session);
  command->add_flag("--json", o->json, "One JSON object on stdout in place of the text");
  command->add_option("--kv-report", o->report, "The report on standard error: text (default) or json")->check(CLI::IsMember({"text", "json"}));
  command->add_flag("--no-kv-report", o->no_report, "No report");
  command->callback([o] {
    if (o->model.model == "-" && o->dash.empty()) std::swap(o->model.model, o->dash);
    if (!o->dash.empty() && (o->prompt || o->file)) throw Error(ErrorKind::kUsage, "'-' (standard input) and -p or -f are two prompts; give one");
    o->sampling = o->flags.resolved();
    run(*o);
  });
}

}  // namespace quern::cli
