// The one binary: a table of subcommands, and the mapping of errors to exit statuses.
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "command.h"
#include "quern/error.h"

namespace {

constexpr quern::cli::AddCommand kCommands[] = {
    quern::cli::add_run,
    quern::cli::add_bench,
    quern::cli::add_chat,
    quern::cli::add_perplexity,
    quern::cli::add_inspect,
    quern::cli::add_tokenize,
    quern::cli::add_template,
    quern::cli::add_logits,
};

/// CLI11 takes the next word as an option's value whatever it looks like; `--stop --temp 0` is a forgotten value all the same.
void refuse_options_as_values(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& value : option->results()) {
      if (!value.starts_with("--") || !command.get_option_no_throw(value)) continue;
      throw quern::Error(quern::ErrorKind::kUsage, fmt::format("{} needs a value, but '{}' follows, which is an option itself", option->get_name(), value));
    }
  }
}

/// An option given twice has its last value, so that a script's or an alias's can be changed at the end of the line. Not the model,
/// which may be named in two ways, nor options that take lists.
void last_value_wins(CLI::App& command) {
  for (CLI::Option* option : command.get_options([](const CLI::Option* o) { return !o->get_positional() && o->get_items_expected_max() == 1; })) {
    if (option->get_multi_option_policy() == CLI::MultiOptionPolicy::Throw) option->take_last();
  }
}

/// OpenMP's threads spin for milliseconds between two steps unless its settings say otherwise, and it reads those before main. On a
/// busy machine the thread that they wait for could use that time (two busy processes beside it halve the speed once more), so the
/// program starts itself again with a wait of some 20 microseconds. Whoever has chosen one is left alone.
void shorten_openmp_wait(char** argv) {
  for (const char* setting : {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY", "KMP_BLOCKTIME"}) {
    if (std::getenv(setting)) return;
  }
  char path[4096];
  const ssize_t n = ::readlink("/proc/self/exe", path, sizeof path - 1);
  if (n <= 0) return;
  path[n] = '\0';
  ::setenv("GOMP_SPINCOUNT", "2000", 1);
  ::setenv("KMP_BLOCKTIME", "0", 1);
  ::execv(path, argv);  // returns only if that failed; then it goes on as it is
}

int parse_and_run(int argc, char** argv) {
  CLI::App app{"quern: GGUF language models on a plain CPU, with the KV cache in full view", "quern"};
  app.set_version_flag("--version", std::string("quern ") + QUERN_VERSION);
  app.require_subcommand(1);
  app.failure_message(CLI::FailureMessage::simple);
  for (const auto add : kCommands) add(app);
  std::vector<std::string> names;
  for (CLI::App* command : app.get_subcommands({})) {
    last_value_wins(*command);
    command->parse_complete_callback([command] { refuse_options_as_values(*command); });
    names.push_back(command->get_name());
  }
  if (argc > 1 && argv[1][0] != '-' && std::find(names.begin(), names.end(), argv[1]) == names.end()) {
    throw quern::Error(quern::ErrorKind::kUsage, fmt::format("'{}' is no command; there are {} (quern --help)", argv[1], fmt::join(names, ", ")));
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (app.exit(error) != 0) return int(quern::ErrorKind::kUsage);
  }
  // Output that could not be written (a full disk, say) is a failure even when everything before went well; so is help.
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) {
    fmt::print(stderr, "quern: writing to standard output failed\n");
    return int(quern::ErrorKind::kRuntime);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  shorten_openmp_wait(argv);
  try {
    return parse_and_run(argc, argv);
  } catch (const quern::cli::ExitStatus& exit) {
    std::fflush(stdout);
    return exit.status;
  } catch (const quern::Error& error) {
    std::fflush(stdout);
    fmt::print(stderr, "quern: {}\n", error.what());
    return error.exit_status();
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "quern: out of memory\n");
    return 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "quern: {}\n", error.what());
    return 1;
  }
}
