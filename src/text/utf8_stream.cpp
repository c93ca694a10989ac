// Holding back unfinished characters.
#include "text/utf8_stream.h"

#include <utility>

#include "base/utf8.h"

namespace quern {

std::string Utf8Stream::push(std::string_view bytes) {
  waiting_ += bytes;
  const size_t n_ready = waiting_.size() - utf8_incomplete_tail(waiting_);
  std::string ready = utf8_repair(std::string_view(waiting_).substr(0, n_ready));
  waiting_.erase(0, n_ready);
  return ready;
}

std::string Utf8Stream::finish() {
  return utf8_repair(std::exchange(waiting_, {}));
}

}  // namespace quern
