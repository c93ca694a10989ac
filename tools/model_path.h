// From what the user calls a model to the file it lies in.
#pragma once
#include <string>

namespace quern::cli {

/// `name`: a path, a name or alias of models/catalog.json, or empty for the catalog's default model. Looks in $QUERN_MODELS, ./models
/// and the models folder beside the build. @throws Error(kModel) saying what was looked for, where, and how to fetch it
std::string find_model(const std::string& name);

}  // namespace quern::cli
