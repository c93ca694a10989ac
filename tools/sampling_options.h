// The sampler's options, shared by the commands that generate.
#pragma once
#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "quern/engine.h"

namespace quern::cli {

struct SamplingFlags {
  SamplingOptions sampling;
  std::optional<uint64_t> seed;
  std::vector<std::string> logit_bias;

  /// The options with biases and seed filled in; a seed that was not given is random. @throws Error(kUsage)
  SamplingOptions resolved() const;
};

void add_sampling_options(CLI::App& command, SamplingFlags& flags);

}  // namespace quern::cli
