// The table of architectures: every entry of a row is noticed in the logits, and the README's table says what was measured here.
#include <fmt/format.h>

#include <map>
#include <set>
#include <sstream>

#include "engine/golden_cases.h"
#include "gguf/model_file.h"

using namespace quern;
using namespace quern::test;

namespace {

/// All logits of a case's tokens, whatever row and weights the model was given.
std::vector<float> logits_with(const Model& model, const Case& c) {
  KvLayoutOptions layout;
  layout.k_type = layout.v_type = KvType::kF32;
  layout.n_ctx = c.n_ctx;
  KvCache cache(KvLayout(kv_geometry(model.params), layout));
  cache.prepare(c.tokens.size());
  std::vector<RopeTable> ropes;
  for (const RopeParams& rope : model.params.ropes) ropes.push_back(make_rope_table(rope, model.weights.rope_factors));
  std::vector<float> logits(c.tokens.size() * model.params.n_vocab);
  const Segment segment{&cache, c.tokens, 0, c.tokens.size(), ropes};
  ops::Workspace workspace;
  REQUIRE(forward(model, kernels::active_kernels(), workspace, {&segment, 1}, {.n_threads = 1, .float_activations = true}, logits.data()).status == ForwardStatus::kDone);
  return logits;
}

/// Takes an entry of a row back to what most rows say; false: the row says nothing here.
struct Change {
  const char* entry;
  bool (*apply)(ArchSpec& row, const ModelParams& params);
};

template <auto Member>
bool forget(ArchSpec& row, const ModelParams&) {
  const auto usual = ArchSpec{}.*Member;
  const bool says_something = row.*Member != usual;
  row.*Member = usual;
  return says_something;
}

const Change kChanges[] = {
    {"rope",
     [](ArchSpec& row, const ModelParams& params) {
       row.rope = row.rope == RopePairing::kHalf ? RopePairing::kInterleaved : RopePairing::kHalf;
       return params.alibi_slopes.empty();
     }},
    {"activation",
     [](ArchSpec& row, const ModelParams&) {
       row.activation = row.activation == Activation::kSilu ? Activation::kReluSquared : Activation::kSilu;
       return true;
     }},
    {"norm",
     [](ArchSpec& row, const ModelParams&) {
       row.norm = row.norm == NormKind::kRms ? NormKind::kLayer : NormKind::kRms;
       return true;
     }},
    {"bare_norms", forget<&ArchSpec::bare_norms>},
    {"qk_norm_after_rope", forget<&ArchSpec::qk_norm_after_rope>},
    {"scale_embedding", forget<&ArchSpec::scale_embedding>},
    {"ff_counts_both", forget<&ArchSpec::ff_counts_both>},
    {"window_pattern", forget<&ArchSpec::window_pattern>},
    {"no_rope_pattern", forget<&ArchSpec::no_rope_pattern>},
    {"rope_in_windows_only", forget<&ArchSpec::rope_in_windows_only>},
    {"plain_rope_in_windows", forget<&ArchSpec::plain_rope_in_windows>},
    {"local_rope_base", forget<&ArchSpec::local_rope_base>},
    {"alibi_max_bias", forget<&ArchSpec::alibi_max_bias>},
    {"finetuned_key_is_rope", forget<&ArchSpec::finetuned_key_is_rope>},
    {"expert_gating", forget<&ArchSpec::expert_gating>},
    {"normalise_experts", forget<&ArchSpec::normalise_experts>},
    {"divide_logits", forget<&ArchSpec::divide_logits>},
};

/// The largest change of a logit over the case's deviation; endless where the file does not load with the other row.
double change_of_logits(Model& model, const Case& c, const ArchSpec& row, const std::vector<float>& usual) {
  const ModelParams params = model.params;
  try {
    model.params = read_params(model.file.header(), row);
    model.weights = load_weights(model.file.header(), model.params);
  } catch (const Error&) {
    model.params = params;
    return INFINITY;
  }
  return worst_error(logits_with(model, c), usual) / c.logit_std;
}

}  // namespace

TEST_CASE("every entry of an architecture's row is noticed in the logits of one of its tiny models") {
  std::map<std::pair<std::string, std::string>, double> largest;  // (architecture, entry): change
  for (const Case& c : all_cases()) {
    if (c.weights != "F32") continue;
    Model model(c.path, MappedFile::Mode::kMap, {});
    const ModelParams params = model.params;
    const auto usual = logits_with(model, c);
    for (const Change& change : kChanges) {
      ArchSpec row = *c.arch;
      if (!change.apply(row, params)) continue;
      double& seen = largest[{std::string(c.arch->name), change.entry}];
      seen = std::max(seen, change_of_logits(model, c, row, usual));
    }
  }
  REQUIRE(largest.size() > all_archs().size() * 2);
  for (const auto& [where, change] : largest) {
    INFO(where.first << ": " << where.second);
    CHECK(change > 3e-2);  // the widest tolerance is 1e-2
  }
}

namespace {

/// Vocabularies of the reference data by the architecture they state; their tokens are checked one by one in test_text.
std::map<std::string, std::string> vocabularies() {
  std::map<std::string, std::string> out;
  std::vector<fs::path> files;
  for (const char* folder : {"tokenizers", "vocabs"}) {
    for (const auto& entry : fs::directory_iterator(fs::path(QUERN_GOLDEN) / folder)) {
      if (entry.path().extension() == ".gguf") files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    std::string name = file.stem().string();
    if (name.starts_with("ggml-vocab-")) name.erase(0, std::string("ggml-vocab-").size());
    std::string& names = out[std::string(gguf::ModelFile(file).header().get_string("general.architecture").value_or(""))];
    names += (names.empty() ? "" : ", ") + name;
  }
  return out;
}

struct Row {
  size_t n_models = 0;
  double deviation = 0, tolerance = 0;
};

std::string measured_table() {
  std::map<std::string, Row> rows;
  for (const Case& c : all_cases()) {
    const auto got = logits_of(c.path, c.tokens, c.n_ctx, {.float_activations = true, .kv_type = "f32"});
    Row& row = rows[std::string(c.arch->name)];
    ++row.n_models;
    row.deviation = std::max(row.deviation, worst_error(got, c.reference) / c.logit_std);
    row.tolerance = c.tolerance();
  }
  const auto vocabulary_of = vocabularies();
  std::string table = "| architecture | vocabularies, exact | tiny models | largest deviation | tolerance |\n| --- | --- | --- | --- | --- |\n";
  for (const ArchSpec& arch : all_archs()) {
    const auto row = rows.find(std::string(arch.name));
    const auto names = vocabulary_of.find(std::string(arch.name));
    table += fmt::format("| `{}` | {} | ", arch.name, names == vocabulary_of.end() ? "–" : names->second);
    table += row == rows.end() ? "none | – | – |\n" : fmt::format("{} | {:.1e} | {:.0e} |\n", row->second.n_models, row->second.deviation, row->second.tolerance);
  }
  return table;
}

}  // namespace

TEST_CASE("the README's table of architectures is the one measured here") {
  const fs::path path = fs::path(QUERN_SOURCE) / "README.md";
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  const std::string readme = text.str(), begin = "<!-- architectures: written by test_engine -->\n", end = "<!-- end -->\n";
  const size_t from = readme.find(begin), to = readme.find(end, from);
  REQUIRE(from != std::string::npos);
  REQUIRE(to != std::string::npos);
  const std::string table = measured_table();
  if (std::getenv("QUERN_WRITE_README")) {
    std::ofstream(path) << readme.substr(0, from + begin.size()) << table << readme.substr(to);
    return;
  }
  INFO("QUERN_WRITE_README=1 test_engine \"the README's table*\" writes it");
  CHECK(readme.substr(from + begin.size(), to - from - begin.size()) == table);
}

TEST_CASE("every architecture has a tiny model with reference logits") {
  std::set<std::string_view> seen;
  for (const Case& c : all_cases()) seen.insert(c.arch->name);
  for (const ArchSpec& arch : all_archs()) {
    INFO(arch.name);
    CHECK(seen.contains(arch.name));
  }
}
