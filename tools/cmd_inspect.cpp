// `quern inspect FILE`: what a GGUF file says, for people or as JSON, and one tensor as float32. Reads headers, and of the tensors the
// small ones that loading decodes; large data is touched by --tensor alone. Shows any architecture, also one that quern cannot run.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/utf8.h"
#include "command.h"
#include "gguf/model_file.h"
#include "kv_plan.h"
#include "model/describe.h"
#include "model_path.h"
#include "quant/decode.h"
#include "text/tokenizer.h"

namespace quern::cli {
namespace {

using gguf::Array;
using gguf::Header;
using gguf::ModelFile;
using gguf::TensorInfo;
using gguf::Value;
using gguf::ValueType;
using nlohmann::ordered_json;

constexpr size_t kShownElements = 8;  ///< of a long array
constexpr size_t kShownBytes = 100;   ///< of a long text

struct InspectOptions {
  std::string path;
  bool json = false;
  bool full = false;
  std::string tensor;
  std::string out;
  bool plan_only = false;
  std::vector<uint64_t> contexts;
};

/// 1234567 as "1,234,567".
std::string grouped(uint64_t n) {
  std::string digits = std::to_string(n);
  for (size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, ",");
  return digits;
}

struct TypeCount {
  size_t n_tensors = 0;
  uint64_t n_elems = 0, n_bytes = 0;
};

struct Totals {
  uint64_t n_elems = 0, n_bytes = 0;
  std::vector<std::pair<const FormatInfo*, TypeCount>> types;  ///< most bytes first
};

Totals count_tensors(const Header& header) {
  Totals totals;
  std::map<const FormatInfo*, TypeCount> types;
  for (const TensorInfo& tensor : header.tensors) {
    TypeCount& count = types[tensor.format];
    ++count.n_tensors;
    count.n_elems += tensor.n_elems;
    count.n_bytes += tensor.n_bytes;
    totals.n_elems += tensor.n_elems;
    totals.n_bytes += tensor.n_bytes;
  }
  totals.types.assign(types.begin(), types.end());
  std::stable_sort(totals.types.begin(), totals.types.end(),
                   [](const auto& a, const auto& b) { return a.second.n_bytes > b.second.n_bytes; });
  return totals;
}

/// Text from a file as it may stand on a terminal, without quotes.
std::string shown(std::string_view text, size_t max_bytes = kShownBytes) {
  const std::string out = gguf::quoted(text, max_bytes);
  const size_t end = out.rfind('\'');
  return out.substr(1, end - 1) + out.substr(end + 1);
}

/// The string under `key`, or nothing where it is absent or of another kind (inspect shows such files too).
std::string_view string_or_empty(const Header& header, std::string_view key) {
  const Value* value = header.find(key);
  const auto* text = value ? std::get_if<std::string_view>(&value->data) : nullptr;
  return text ? *text : std::string_view();
}

// ---- for people

std::string element_text(const Array& array, size_t i) {
  switch (array.element_type) {
    case ValueType::String:
      return gguf::quoted(array.strings[i], kShownBytes / 2);
    case ValueType::F32:
      return fmt::format("{}", float(array.number(i)));
    case ValueType::F64:
      return fmt::format("{}", array.number(i));
    case ValueType::U64:
      return fmt::format("{}", uint64_t(array.integer(i)));
    case ValueType::Bool:
      return array.integer(i) ? "true" : "false";
    default:
      return fmt::format("{}", array.integer(i));
  }
}

std::string value_text(const Value& value, bool full) {
  const size_t n_shown_bytes = full ? SIZE_MAX : kShownBytes;
  if (const auto* text = std::get_if<std::string_view>(&value.data)) return gguf::quoted(*text, n_shown_bytes);
  if (const auto* u = std::get_if<uint64_t>(&value.data)) return fmt::format("{}", *u);
  if (const auto* i = std::get_if<int64_t>(&value.data)) return fmt::format("{}", *i);
  if (const auto* b = std::get_if<bool>(&value.data)) return *b ? "true" : "false";
  if (const auto* f = std::get_if<double>(&value.data))
    return value.type == ValueType::F32 ? fmt::format("{}", float(*f)) : fmt::format("{}", *f);
  const Array& array = std::get<Array>(value.data);
  const size_t n_shown = full ? size_t(array.size) : std::min<size_t>(kShownElements, size_t(array.size));
  std::string out = "[";
  for (size_t i = 0; i < n_shown; ++i) out += (i ? ", " : "") + element_text(array, i);
  if (n_shown < array.size) out += fmt::format(", … {} more", grouped(array.size - n_shown));
  return out + "]";
}

std::string type_text(const Value& value) {
  const auto* array = std::get_if<Array>(&value.data);
  if (!array) return std::string(gguf::value_type_name(value.type));
  return fmt::format("{}[{}]", gguf::value_type_name(array->element_type), array->size);
}

std::string shape_text(const TensorInfo& tensor) {
  return fmt::format("[{}]", fmt::join(tensor.dims.rbegin(), tensor.dims.rend(), ", "));
}

void print_summary(const ModelFile& file, const Totals& totals) {
  const Header& header = file.header();
  const auto row = [](std::string_view label, const std::string& text) { fmt::print("{:<14}{}\n", label, text); };
  const auto text_of = [&header](std::string_view key) {
    const std::string_view text = string_or_empty(header, key);
    return text.empty() ? std::string("(not in the file)") : shown(text);
  };
  row("file", file.parts()[0].path().string());
  if (file.parts().size() > 1) row("parts", std::to_string(file.parts().size()));
  row("format", fmt::format("GGUF version {}, alignment {}", header.version, header.alignment));
  row("name", text_of("general.name"));
  row("architecture", text_of("general.architecture"));
  row("parameters", grouped(totals.n_elems));
  row("size",
      fmt::format("{} bytes ({:.1f} MiB)", grouped(file.total_bytes()), double(file.total_bytes()) / (1 << 20)));
  if (totals.n_elems)
    row("per weight", fmt::format("{:.2f} bits", 8.0 * double(totals.n_bytes) / double(totals.n_elems)));
  row("tensors", grouped(header.tensors.size()));
  for (const auto& [format, count] : totals.types) {
    row("", fmt::format("{:>5} × {:<8} {:>16} bytes  {:>5.1f} %", count.n_tensors, format->name, grouped(count.n_bytes),
                        100.0 * double(count.n_bytes) / double(totals.n_bytes)));
  }
}

void print_metadata(const Header& header, bool full) {
  fmt::print("\nmetadata ({})\n", header.metadata.size());
  for (const auto& [key, value] : header.metadata) {
    fmt::print("  {:<44} {:<14} {}\n", shown(key), type_text(value), value_text(value, full));
  }
}

void print_tensors(const Header& header) {
  fmt::print("\ntensors ({})  shape outermost first\n", header.tensors.size());
  for (const TensorInfo& tensor : header.tensors) {
    fmt::print("  {:<36} {:<8} {:<22} {:>14} bytes\n", shown(tensor.name), tensor.format->name, shape_text(tensor),
               grouped(tensor.n_bytes));
  }
}

void print_facts(std::string_view source, const std::vector<ModelFact>& facts) {
  for (const ModelFact& fact : facts) {
    fmt::print("  {:<13} {:<20} {}\n", source, fact.what, fact.value);
    source = "";
  }
}

/// What a run would make of the file, its tokenizer included.
ModelDescription describe(const Header& header) {
  ModelDescription model = describe_model(header);
  if (!model.refusal.empty()) return model;
  try {
    Tokenizer::from_gguf(header);
  } catch (const Error& error) {
    model.refusal = error.what();
  }
  return model;
}

void print_model(const ModelDescription& model) {
  if (model.refusal.empty()) fmt::print("\nhow quern computes it\n");
  else fmt::print("\nquern cannot run this file: {}\n", model.refusal);
  print_facts("from its row", model.row);
  print_facts("from keys", model.keys);
  print_facts("from tensors", model.tensors);
}

/// The sections, in order; json_report has the same as members.
void print_report(const ModelFile& file, bool full) {
  print_summary(file, count_tensors(file.header()));
  print_model(describe(file.header()));
  print_metadata(file.header(), full);
  print_tensors(file.header());
}

// ---- as JSON

ordered_json element_json(const Array& array, size_t i) {
  switch (array.element_type) {
    case ValueType::String:
      return utf8_repair(array.strings[i]);
    case ValueType::F32:
    case ValueType::F64:
      return array.number(i);
    case ValueType::U64:
      return uint64_t(array.integer(i));
    case ValueType::Bool:
      return array.integer(i) != 0;
    default:
      return array.integer(i);
  }
}

ordered_json value_json(const Value& value, bool full) {
  ordered_json out = {{"type", gguf::value_type_name(value.type)}};
  const auto* array = std::get_if<Array>(&value.data);
  if (!array) {
    std::visit(
        [&out](const auto& data) {
          using T = std::decay_t<decltype(data)>;
          if constexpr (std::is_same_v<T, std::string_view>)
            out["value"] = utf8_repair(data);
          else if constexpr (!std::is_same_v<T, Array>)
            out["value"] = data;
        },
        value.data);
    return out;
  }
  const size_t n_shown = full ? size_t(array->size) : std::min<size_t>(kShownElements, size_t(array->size));
  out["element_type"] = gguf::value_type_name(array->element_type);
  out["size"] = array->size;
  out["elided"] = n_shown < array->size;
  ordered_json elements = ordered_json::array();
  for (size_t i = 0; i < n_shown; ++i) elements.push_back(element_json(*array, i));
  out["value"] = std::move(elements);
  return out;
}

ordered_json tensors_json(const Header& header) {
  ordered_json out = ordered_json::array();
  for (const TensorInfo& tensor : header.tensors) {
    out.push_back({{"name", utf8_repair(tensor.name)},
                   {"type", tensor.format->name},
                   {"shape", std::vector<uint64_t>(tensor.dims.rbegin(), tensor.dims.rend())},
                   {"elements", tensor.n_elems},
                   {"bytes", tensor.n_bytes},
                   {"part", tensor.part},
                   {"offset", tensor.offset}});
  }
  return out;
}

ordered_json model_json(const ModelDescription& model) {
  ordered_json out = {{"runs", model.refusal.empty()}};
  if (!model.refusal.empty()) out["refusal"] = utf8_repair(model.refusal);
  for (const auto& [source, facts] : {std::pair("row", &model.row), {"keys", &model.keys}, {"tensors", &model.tensors}}) {
    out[source] = ordered_json::array();
    for (const ModelFact& fact : *facts) out[source].push_back({{"what", fact.what}, {"value", fact.value}});
  }
  return out;
}

ordered_json json_report(const ModelFile& file, bool full) {
  const Header& header = file.header();
  const Totals totals = count_tensors(header);
  ordered_json out = {{"file", utf8_repair(file.parts()[0].path().string())},
                      {"parts", file.parts().size()},
                      {"version", header.version},
                      {"alignment", header.alignment},
                      {"name", utf8_repair(string_or_empty(header, "general.name"))},
                      {"architecture", utf8_repair(string_or_empty(header, "general.architecture"))},
                      {"parameters", totals.n_elems},
                      {"file_bytes", file.total_bytes()},
                      {"tensor_bytes", totals.n_bytes}};
  out["types"] = ordered_json::object();
  for (const auto& [format, count] : totals.types) {
    out["types"][std::string(format->name)] = {
        {"tensors", count.n_tensors}, {"elements", count.n_elems}, {"bytes", count.n_bytes}};
  }
  out["model"] = model_json(describe(header));
  out["metadata"] = ordered_json::object();
  for (const auto& [key, value] : header.metadata) out["metadata"][utf8_repair(key)] = value_json(value, full);
  out["tensors"] = tensors_json(header);
  return out;
}

// ---- one tensor

/// Tensor names that a user may have meant: those that hold the given text, or all that end alike.
std::string similar_names(const Header& header, std::string_view name) {
  std::string out;
  int n_found = 0;
  for (const TensorInfo& tensor : header.tensors) {
    if (tensor.name.find(name) == std::string_view::npos && name.find(tensor.name) == std::string_view::npos) continue;
    if (++n_found <= 3) out += (out.empty() ? "; there is " : ", ") + gguf::quoted(tensor.name);
  }
  return out;
}

void write_tensor(const ModelFile& file, const InspectOptions& options) {
  const TensorInfo* tensor = file.header().find_tensor(options.tensor);
  if (!tensor) {
    throw_error(ErrorKind::kUsage, "'{}' has no tensor {}{}; without --tensor all are listed", options.path,
                gguf::quoted(options.tensor), similar_names(file.header(), options.tensor));
  }
  if (!tensor->format->can_decode) {
    throw_error(ErrorKind::kModel, "tensor {}: type {} cannot be decoded", gguf::quoted(tensor->name),
                tensor->format->name);
  }
  const auto fail = [&options](const char* action) {
    throw_error(ErrorKind::kRuntime, "{} '{}' failed: {}", action, options.out, std::strerror(errno));
  };
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> out(std::fopen(options.out.c_str(), "wb"), std::fclose);
  if (!out) fail("opening");
  const size_t n_cols = size_t(tensor->dims[0]);
  const size_t n_row_bytes = row_bytes(tensor->type, n_cols);
  std::vector<float> row(n_cols);
  for (size_t at = 0; at < tensor->n_bytes; at += n_row_bytes) {
    decode_row(tensor->type, tensor->data.data() + at, row.data(), n_cols);
    if (std::fwrite(row.data(), sizeof(float), n_cols, out.get()) != n_cols) fail("writing");
  }
  if (std::fflush(out.get()) != 0) fail("writing");
  fmt::print(stderr, "{}: {} {} as float32, {} bytes\n", options.out, tensor->format->name, shape_text(*tensor),
             grouped(tensor->n_elems * sizeof(float)));
}

void inspect(const InspectOptions& options) {
  const ModelFile file(find_model(options.path));
  if (!options.tensor.empty()) return write_tensor(file, options);
  const KvPlan plan = make_kv_plan(file.header(), options.contexts);
  if (options.json) {
    ordered_json report = options.plan_only ? ordered_json::object() : json_report(file, options.full);
    report["kv_plan"] = kv_plan_json(plan);
    fmt::print("{}\n", report.dump(2));
  } else {
    if (!options.plan_only) print_report(file, options.full);
    fmt::print("{}{}", options.plan_only ? "" : "\n", kv_plan_text(plan));
  }
}

}  // namespace

void add_inspect(CLI::App& app) {
  const auto options = std::make_shared<InspectOptions>();
  CLI::App* command = app.add_subcommand("inspect", "Metadata, tensors and KV plan of a GGUF file; one tensor as float32");
  command->add_option("FILE", options->path, "a GGUF file (of a split set the first part), or a name of the catalog")->required();
  CLI::Option* json =
      command->add_flag("--json", options->json, "everything as JSON on stdout (long arrays shortened)");
  command->add_flag("--full", options->full, "long arrays and texts in full");
  command->add_flag("--kv-plan", options->plan_only, "only what the KV cache would cost");
  command->add_option("-c,--ctx", options->contexts, "contexts of the KV plan, with commas between (4096, 32768 and the model's own)")
      ->delimiter(',')
      ->check(CLI::Range(uint64_t(1), uint64_t(1) << 40));
  CLI::Option* tensor =
      command->add_option("--tensor", options->tensor, "decode this tensor to float32")->excludes(json);
  CLI::Option* out =
      command->add_option("--out", options->out, "where to: little-endian float32, row-major, no header");
  tensor->needs(out);
  out->needs(tensor);
  command->callback([options] { inspect(*options); });
}

}  // namespace quern::cli
