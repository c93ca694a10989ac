// `quern chat`: a conversation on the terminal, or over a pipe.
#include <fmt/format.h>
#include <unistd.h>

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
  std::string system, on_full = "trim";
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

void greet(const Engine& engine, const Conversation& conversation, Console& console) {
  const ModelInfo& info = engine.info();
  console.note(fmt::format("{} ({}), {} threads, context {} tokens{}; template: {}", info.name, info.architecture, engine.threads(), with_commas(conversation.session().n_ctx()), conversation.session().is_endless() ? " at a time, without end" : "", conversation.template_name()));
  if (::isatty(STDIN_FILENO)) console.note("/help lists the commands; Ctrl-C stops an answer, Ctrl-D leaves");
}

int chat(Options& o) {
  std::atomic<bool>& interrupted = conversation_interrupt_flag();
  const ChatTerminal terminal;
  const auto engine = o.model.load();
  const SessionOptions session = o.model.session(engine->info().n_ctx_train);
  check_context(o.model, session, *engine);
  o.chat.on_full = o.on_full == "stop" ? OnFull::kStop : OnFull::kTrim;
  Conversation conversation(engine, session, o.chat);
  conversation.set_system(o.system);
  Console console(o.model.quiet);
  if (o.dump_prompt) {
    dump_prompt(conversation, console);
    return 0;
  }
  greet(*engine, conversation, console);
  o.repl.sampling = o.sampling.resolved();
  o.repl.n_predict = int(o.n_predict);
  Repl repl(*engine, conversation, console, interrupted, o.repl);
  return ::isatty(STDIN_FILENO) ? repl.run_terminal() : repl.run_pipe(o.once);
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
  command->add_option("--on-full", o->on_full, "When the context is full: trim drops the oldest turns (default), stop refuses")->check(CLI::IsMember({"trim", "stop"}));
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
