// The subcommands: a row each. A command registers its options with CLI11 and runs when chosen.
#pragma once
#include <CLI/CLI.hpp>

namespace quern::cli {

/// Adds the subcommand to `app`; its callback does the work and throws quern::Error on failure.
using AddCommand = void (*)(CLI::App& app);

void add_inspect(CLI::App& app);
void add_tokenize(CLI::App& app);
void add_template(CLI::App& app);
void add_logits(CLI::App& app);
void add_perplexity(CLI::App& app);
void add_run(CLI::App& app);
void add_bench(CLI::App& app);
void add_chat(CLI::App& app);

/// Thrown by a command that has said all there is to say and ends with a status of its own.
struct ExitStatus {
  int status;
};

}  // namespace quern::cli
