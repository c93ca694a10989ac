// The one exception type of quern. Cold code throws it; hot code (kernels, ops, kv, forward) never does.
// Its kind decides the exit status, so that a script can tell a bad flag from a bad file.
#pragma once
#include <stdexcept>
#include <string>

namespace quern {

enum class ErrorKind {
  kRuntime = 1,       ///< failed while running (memory, non-finite numbers, a write that did not go through)
  kUsage = 2,         ///< a wrong flag, argument or prompt
  kModel = 3,         ///< the model file is bad or not supported
  kInterrupted = 130  ///< the user stopped it
};

/// what() is one line for a person: what, where, the value found, the value allowed, what to do next.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }
  int exit_status() const { return static_cast<int>(kind_); }

 private:
  ErrorKind kind_;
};

}  // namespace quern
