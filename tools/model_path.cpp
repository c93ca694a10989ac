// The catalog names models; it never downloads (models/fetch does), and it never puts another model in a missing one's place.
#include "model_path.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "quern/error.h"

namespace quern::cli {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> model_folders() {
  std::vector<fs::path> folders;
  if (const char* named = std::getenv("QUERN_MODELS"); named && *named) folders.emplace_back(named);
  folders.emplace_back("models");
  std::error_code ignored;
  const fs::path self = fs::read_symlink("/proc/self/exe", ignored);
  if (!ignored) folders.push_back(self.parent_path().parent_path() / "models");
  return folders;
}

struct CatalogEntry {
  std::string name, file;
  bool matches = false;
};

/// The entry that `wanted` names (empty: the default one) in a folder's catalog, and all names for the message.
CatalogEntry look_up(const fs::path& catalog, const std::string& wanted, std::vector<std::string>& names) {
  std::ifstream in(catalog);
  const auto json = nlohmann::json::parse(in, nullptr, false);
  if (!json.is_object() || !json.contains("models")) return {};
  CatalogEntry found;
  for (const auto& model : json["models"]) {
    const std::string name = model.value("name", "");
    names.push_back(name);
    bool matches = wanted.empty() ? model.value("role", "") == "default" : name == wanted;
    for (const auto& alias : model.value("aliases", nlohmann::json::array())) matches |= !wanted.empty() && alias == wanted;
    if (matches && !found.matches) found = {name, model.value("file", ""), true};
  }
  return found;
}

}  // namespace

std::string find_model(const std::string& name) {
  std::error_code ignored;
  if (!name.empty() && (fs::exists(name, ignored) || name.find('/') != std::string::npos || name.ends_with(".gguf"))) return name;
  std::vector<std::string> names;
  for (const fs::path& folder : model_folders()) {
    std::vector<std::string> found;
    const CatalogEntry entry = look_up(folder / "catalog.json", name, found);
    if (!found.empty()) names = std::move(found);
    if (!entry.matches) continue;
    for (const fs::path& place : model_folders()) {
      if (fs::exists(place / entry.file, ignored)) return (place / entry.file).string();
    }
    throw Error(ErrorKind::kModel, fmt::format("the model '{}' is not fetched yet ({} is not in {}); run models/fetch {}", entry.name, entry.file, folder.string(), entry.name));
  }
  if (name.empty()) throw Error(ErrorKind::kModel, "no model is named and there is no models/catalog.json here; give the path of a .gguf file");
  throw Error(ErrorKind::kModel, fmt::format("there is no file '{}', and no model of that name in the catalog ({})", name, names.empty() ? "which was not found" : fmt::format("it has {}", fmt::join(names, ", "))));
}

}  // namespace quern::cli
