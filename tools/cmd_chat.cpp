// `quern chat`: a conversation on the terminal, or over a pipe.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/utf8.h"
#include "command.h"
#include "interrupt.h"
#include "model_options.h"
#include "repl.h"
#include "report_text.h"
#include "sampling_options.h"

namespace quern::cli {
namespace {

struct Options {
  ModelOptions model;
  SamplingFlags sampling;
  ReplOptions repl;
  ChatOptions chat;
  std::optional<std::string> system;
  std::string on_full = "trim", session_file;
  int64_t n_predict = -1;
  bool once = false, dump_prompt = false;
};

/// The prompt that the piped text (or an empty message) would be answered to.
void dump_prompt(Conversation& conversation, Console& console) {
  std::string text;
  if (!::isatty(STDIN_FILENO)) {
    char buffer[1 << 16];
    for (size_t n; (n = std::fread(buffer, 1, sizeof buffer, stdin)) > 0;) text.append(buffer, n);
  }
  console.answer(conversation.preview(text).text, false);
}

/// The beginning of a text, on one line.
std::string shortened(const std::string& text) {
  constexpr size_t kMostBytes = 70;
  std::string line = text.substr(0, kMostBytes);
  line.resize(line.size() - utf8_incomplete_tail(line));
  std::replace(line.begin(), line.end(), '\n', ' ');
  return utf8_repair(line) + (text.size() > kMostBytes ? " ..." : "");
}

void greet(const Engine& engine, const Conversation& conversation, Console& console) {
  const ModelInfo& info = engine.info();
  console.note(fmt::format("{} ({}), {}, context {} tokens{}; template: {}", info.name, info.architecture, counted(size_t(engine.threads()), "thread"), with_commas(conversation.session().n_ctx()), conversation.session().is_endless() ? " at a time, without end" : "", conversation.template_name()));
  if (::isatty(STDIN_FILENO)) console.note("/help lists the commands; Ctrl-C stops an answer, Ctrl-D leaves");
}

/// Goes on where the file ended, or makes it, so that a place that cannot be written is known before the first word.
void open_session(const Options& o, Conversation& conversation, Console& console) {
  if (o.session_file.empty()) return;
  std::error_code ignored;
  if (std::filesystem::file_size(o.session_file, ignored) == 0 || !std::filesystem::exists(o.session_file, ignored)) {
    if (o.dump_prompt) return;
    conversation.save(o.session_file);
    console.note(fmt::format("[a new session; it is saved to '{}' after every answer and at the end]", o.session_file));
    return;
  }
  const RestoredSession restored = conversation.restore(o.session_file);
  console.note(fmt::format("[session '{}': {}, {} tokens restored in {:.0f} ms ({})]", o.session_file, counted(conversation.messages().size() / 2, "turn"), with_commas(restored.n_tokens), restored.ms, bytes_text(restored.n_bytes)));
  if (!conversation.messages().empty()) console.note(fmt::format("[the last message was: {}]", shortened(conversation.messages()[conversation.messages().size() - 2].content)));
}

void close_session(const Options& o, const Conversation& conversation, Console& console) {
  if (o.session_file.empty()) return;
  const SavedSession saved = conversation.save(o.session_file);
  console.note(fmt::format("[session: {}, {} tokens saved to '{}' in {:.0f} ms ({})]", counted(conversation.messages().size() / 2, "turn"), with_commas(saved.n_tokens), o.session_file, saved.ms, bytes_text(saved.n_bytes)));
}

/// Saves after the answers too, so that a conversation outlives a kill or a power failure. A large cache takes its time to write, and
/// then not every answer is followed by one: saving never takes more than a tenth of the time.
class SessionKeeper {
 public:
  SessionKeeper(std::string path, const Conversation& conversation, Console& console) : path_(std::move(path)), conversation_(conversation), console_(console) {}

  void after_answer() {
    if (last_ms_ > kCheapMs && since_last_save() < kLeastPause * last_ms_) return;
    try {
      last_ms_ = conversation_.save(path_).ms;
      failed_ = false;
    } catch (const Error& error) {
      if (!std::exchange(failed_, true)) console_.error(fmt::format("the session is not saved now: {}", error.what()));
    }
    last_save_ = Clock::now();
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr double kCheapMs = 50, kLeastPause = 10;

  double since_last_save() const { return std::chrono::duration<double, std::milli>(Clock::now() - last_save_).count(); }

  const std::string path_;
  const Conversation& conversation_;
  Console& console_;
  Clock::time_point last_save_ = Clock::now();
  double last_ms_ = 0;
  bool failed_ = false;
};

int chat(Options& o) {
  std::atomic<bool>& interrupted = conversation_interrupt_flag();
  const ChatTerminal terminal;
  const auto engine = o.model.load();
  SessionOptions session = o.model.session(engine->info().n_ctx_train);
  check_context(o.model, session, *engine);
  o.chat.on_full = o.on_full == "stop" ? OnFull::kStop : OnFull::kTrim;
  if (o.on_full == "window" && session.kv_window == 0) {
    const auto sinks = uint32_t(o.model.kv_sinks);
    if (session.n_ctx <= sinks) throw Error(ErrorKind::kUsage, fmt::format("--on-full window keeps the first {} tokens and the last ones, which a context of {} has no room for; give a larger -c", sinks, session.n_ctx));
    session.kv_window = uint32_t(session.n_ctx) - sinks;
    session.kv_sinks = sinks;
  }
  Conversation conversation(engine, session, o.chat);
  Console console(o.model.quiet);
  if (!o.dump_prompt) greet(*engine, conversation, console);
  open_session(o, conversation, console);
  if (o.system) conversation.set_system(*o.system);
  if (o.dump_prompt) {
    dump_prompt(conversation, console);
    return 0;
  }
  o.repl.sampling = o.sampling.resolved();
  o.repl.n_predict = int(o.n_predict);
  SessionKeeper keeper(o.session_file, conversation, console);
  if (!o.session_file.empty()) o.repl.after_answer = [&keeper] { keeper.after_answer(); };
  Repl repl(*engine, conversation, console, interrupted, o.repl);
  int status = 0;
  try {
    status = ::isatty(STDIN_FILENO) ? repl.run_terminal() : repl.run_pipe(o.once);
  } catch (...) {
    close_session(o, conversation, console);
    if (ending_signal()) return 128 + ending_signal();
    throw;
  }
  close_session(o, conversation, console);
  return status;
}

}  // namespace

void add_chat(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("chat", "A conversation; each turn re-uses the cache of the turns before");
  add_model_options(*command, o->model);
  command->add_option("--system", o->system, "System prompt");
  command->add_option("--template", o->chat.chat_template, "Chat template: a built-in name or a file, in place of the model's own");
  command->add_option("-n,--predict", o->n_predict, "Most tokens of an answer (default -1: until its end)")->check(CLI::Range(int64_t(-1), int64_t(1) << 30));
  command->add_option("--stop", o->repl.stop, "A text that ends an answer (may be given several times)")->expected(1)->take_all();
  command->add_flag("--ignore-eos", o->repl.ignore_end, "Do not stop at the model's end tokens");
  command->add_option("--on-full", o->on_full, "When the context is full: trim drops the oldest turns whole (default), window forgets the oldest tokens, stop refuses")->check(CLI::IsMember({"trim", "window", "stop"}));
  command->add_option("--session", o->session_file, "A file that keeps the conversation and its cache: continued where it exists, saved after every answer and at the end")->check(kNotEmpty);
  command->add_flag("--hide-thinking", o->repl.hide_thinking, "Do not show what stands in <think>...</think>");
  command->add_flag("--once", o->once, "Piped input is one message, and not one a line");
  command->add_flag("--dump-prompt", o->dump_prompt, "Print the exact prompt for the piped message and stop");
  add_sampling_options(*command, o->sampling);
  add_cache_options(*command, o->model);
  command->callback([o] {
    const int status = chat(*o);
    if (status != 0) throw ExitStatus{status};
  });
}

}  // namespace quern::cli
