// Options that several subcommands share: which model, how it runs, what its cache is made of.
#pragma once
#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>

#include "quern/engine.h"

namespace quern::cli {

inline constexpr uint32_t kDefaultSinks = 4;  ///< tokens that a window keeps besides its own, where the user gives no number

/// Whether heavy:N can be kept to the letter: whole pieces of the cache, two at least.
constexpr bool is_heavy_budget(uint32_t n) { return n >= 512 && n <= 1u << 30 && n % 256 == 0; }

/// An unset variable in a script must not lose a limit or a file to save to.
inline const CLI::Validator kNotEmpty([](std::string& value) { return std::string(value.empty() ? "the value is empty; leave the option out or give one" : ""); }, "");

struct ModelOptions {
  std::string model;                 ///< a path or a name of the catalog; empty: the default model
  int64_t threads = 0;
  bool mmap = false, no_mmap = false;
  std::string act = "int8";
  std::string pre;
  int64_t n_ctx = 0;                 ///< -c; 0: not given
  int64_t batch = 512;
  std::string kv_type, k_type, v_type;
  int64_t kv_window = 0, kv_sinks = kDefaultSinks;
  std::string kv_evict;              ///< as written
  std::string memory_limit;          ///< as written
  bool quiet = false;

  std::shared_ptr<Engine> load() const;
  /// n_ctx: the context when -c is not given (0: the model's).
  SessionOptions session(size_t default_ctx) const;
};

/// Registers the model (positional or -m) and the engine's options other than --threads.
void add_file_options(CLI::App& command, ModelOptions& options);
/// Those, and --threads.
void add_model_options(CLI::App& command, ModelOptions& options);
/// Registers -c, --batch and the --kv options.
void add_cache_options(CLI::App& command, ModelOptions& options);
/// Registers what makes the cache forget: part of add_cache_options.
void add_policy_options(CLI::App& command, ModelOptions& options);
/// For commands whose -c is the length of the sequence: refuses one beside --kv-window, warns of what the model was not trained for.
void check_context(const ModelOptions& options, const SessionOptions& session, const Engine& engine);

}  // namespace quern::cli
