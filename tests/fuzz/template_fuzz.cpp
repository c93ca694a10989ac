// libFuzzer target of the chat template interpreter: any bytes are refused (kModel) or parsed; what is parsed renders
// or fails (kRuntime) within its limits, and the pieces are the text. Input: the template, then (after a NUL) a user
// message.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "text/chat_template.h"
#include "text/jinja_eval.h"
#include "text/jinja_parser.h"

namespace {

using namespace quern;

/// Small limits, so that an input takes milliseconds and the fuzzer sees many.
std::string render_within_limits(const jinja::Template& parsed, std::string_view content) {
  jinja::Limits limits;
  limits.max_steps = 50'000;
  limits.max_heap_bytes = uint64_t{1} << 24;
  limits.max_text_bytes = uint64_t{1} << 20;
  limits.max_depth = 200;
  jinja::Heap heap(limits);
  jinja::Evaluator evaluator(parsed, heap);
  try {
    const jinja::Value message = heap.dict();
    message.dict->set(heap.view("role"), heap.view("user"));
    message.dict->set(heap.view("content"), heap.user_view(content));
    evaluator.define("messages", heap.list({message, message}));
    evaluator.define("tools", heap.list({message}));
    evaluator.define("add_generation_prompt", jinja::Value::of(true));
    evaluator.define("bos_token", heap.view("<s>"));
    const jinja::TextBuilder text = evaluator.run();
    uint32_t end = 0;
    for (const jinja::Mark& mark : text.marks) {
      if (mark.begin < end || mark.begin >= mark.end || mark.end > text.bytes.size()) std::abort();
      end = mark.end;
    }
    return text.bytes;
  } catch (const jinja::Failure&) {
    return {};
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t nul = std::min(input.find('\0'), input.size());
  const std::string_view content = input.substr(std::min(nul + 1, input.size()));
  try {
    jinja::Template parsed;
    jinja::parse(input.substr(0, nul), parsed);
    render_within_limits(parsed, content);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kModel) std::abort();
  }
  return 0;
}
