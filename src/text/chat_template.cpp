// The bridge between JSON messages and the interpreter: inputs become marked values, failures become Errors with a
// line.
#include "text/chat_template.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "text/jinja_eval.h"
#include "text/jinja_parser.h"

namespace quern {

using nlohmann::ordered_json;

struct ChatTemplate::Impl {
  jinja::Template parsed;
};

namespace {

bool plain_word(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-'; });
}

jinja::Value number_value(const ordered_json& json) {
  if (json.is_number_float()) return jinja::Value::of(json.get<double>());
  if (json.is_number_unsigned() && json.get<uint64_t>() > uint64_t(std::numeric_limits<int64_t>::max())) {
    jinja::fail("the number {} in the inputs does not fit in 64 bits", json.get<uint64_t>());
  }
  return jinja::Value::of(json.get<int64_t>());
}

jinja::Value to_value(jinja::Heap& heap, const ordered_json& json, int depth = 0) {
  jinja::check_nesting(depth);
  switch (json.type()) {
    case ordered_json::value_t::object: {
      const jinja::Value dict = heap.dict();
      heap.charge(json.size() * 2 * sizeof(jinja::Value));
      for (const auto& [key, value] : json.items()) {
        dict.dict->set(heap.user_view(key), to_value(heap, value, depth + 1));
      }
      return dict;
    }
    case ordered_json::value_t::array: {
      std::vector<jinja::Value> items;
      for (const ordered_json& item : json) items.push_back(to_value(heap, item, depth + 1));
      return heap.list(std::move(items));
    }
    case ordered_json::value_t::string:
      return heap.user_view(json.get_ref<const std::string&>());
    case ordered_json::value_t::boolean:
      return jinja::Value::of(json.get<bool>());
    case ordered_json::value_t::number_integer:
    case ordered_json::value_t::number_unsigned:
    case ordered_json::value_t::number_float:
      return number_value(json);
    default:
      return jinja::Value::none();
  }
}

jinja::Value messages_value(jinja::Heap& heap, const ordered_json& messages) {
  const jinja::Value list = to_value(heap, messages);
  if (!list.is_list()) return list;
  for (const jinja::Value& message : list.seq->items) {
    if (!message.is(jinja::Kind::Dict)) continue;
    const jinja::Value* role = message.dict->find("role");
    if (role && role->is(jinja::Kind::Str) && plain_word(role->text()))
      message.dict->set(heap.view("role"), heap.view(role->text()));
  }
  return list;
}

jinja::TextBuilder run(const jinja::Template& parsed, const TemplateInputs& inputs) {
  jinja::Heap heap{jinja::Limits{}};
  heap.now = inputs.now;
  jinja::Evaluator evaluator(parsed, heap);
  try {
    evaluator.define("messages", messages_value(heap, inputs.messages));
    evaluator.define("tools", to_value(heap, inputs.tools));
    evaluator.define("documents", jinja::Value::none());
    evaluator.define("add_generation_prompt", jinja::Value::of(inputs.add_generation_prompt));
    evaluator.define("bos_token", heap.view(inputs.bos_token));
    evaluator.define("eos_token", heap.view(inputs.eos_token));
    for (const auto& [name, value] : inputs.extra.items()) evaluator.define(name, to_value(heap, value));
    return evaluator.run();
  } catch (const jinja::Raised& raised) {
    throw TemplateRefusal(
        fmt::format("the chat template refuses: {} (template line {})", raised.what(), evaluator.line()),
        raised.what());
  } catch (const jinja::Failure& failure) {
    throw_error(ErrorKind::kRuntime, "chat template, line {}: {}", evaluator.line(), failure.what());
  }
}

}  // namespace

ChatTemplate::ChatTemplate(std::string_view source) : impl_(std::make_unique<Impl>()) {
  constexpr size_t kMaxBytes = size_t{16} << 20;
  if (source.size() > kMaxBytes)
    throw_error(ErrorKind::kModel, "chat template: {} bytes, at most {} are allowed", source.size(), kMaxBytes);
  jinja::parse(source, impl_->parsed);
}

ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

std::string ChatTemplate::render(const TemplateInputs& inputs) const {
  return run(impl_->parsed, inputs).bytes;
}

std::vector<RenderedPiece> ChatTemplate::render_pieces(const TemplateInputs& inputs) const {
  const jinja::TextBuilder text = run(impl_->parsed, inputs);
  std::vector<RenderedPiece> pieces;
  size_t done = 0;
  const auto add = [&](size_t end, bool from_user) {
    if (end > done) pieces.push_back({text.bytes.substr(done, end - done), from_user});
    done = std::max(done, end);
  };
  for (const jinja::Mark& mark : text.marks) {
    add(mark.begin, false);
    add(mark.end, true);
  }
  add(text.bytes.size(), false);
  return pieces;
}

}  // namespace quern
