// Opening: the parts of a split set are found by name from the first, each is parsed alone, and their tensors are put
// together.
#include "gguf/model_file.h"

#include <fmt/format.h>

#include <string>

#include "base/check.h"

namespace quern::gguf {
namespace {

constexpr uint64_t kMaxParts = 99999;  // five digits in the name

std::string part_suffix(uint64_t part, uint64_t n_parts) {
  return fmt::format("-{:05}-of-{:05}.gguf", part + 1, n_parts);
}

/// What a file says of its place in a split set.
struct Place {
  uint64_t part = 0, n_parts = 1;
};

Place place_of(const Header& header) {
  const Place place{header.get_uint("split.no").value_or(0), header.get_uint("split.count").value_or(1)};
  if (place.n_parts <= 1 && place.part == 0) return {};
  if (place.n_parts > kMaxParts || place.part >= place.n_parts) {
    throw_error(
        ErrorKind::kModel,
        "metadata 'split.no' and 'split.count': found {} and {}, allowed a part below the count and at most {} parts",
        place.part, place.n_parts, kMaxParts);
  }
  return place;
}

/// The path without "-00001-of-0000N.gguf". @throws Error(kModel) when the file is not the first part or not named like
/// it.
std::string prefix_of_set(const Place& place, const MappedFile& file) {
  const std::string path = file.path().string();
  const std::string suffix = part_suffix(place.part, place.n_parts);
  const bool named = path.ends_with(suffix);
  const std::string prefix = named ? path.substr(0, path.size() - suffix.size()) : std::string();
  const std::string first = named ? fmt::format("'{}{}'", prefix, part_suffix(0, place.n_parts))
                                  : fmt::format("the file whose name ends in '{}'", part_suffix(0, place.n_parts));
  if (place.part != 0) {
    throw_error(ErrorKind::kModel, "'{}': this is part {} of {}; give the first part, {}", path, place.part + 1,
                place.n_parts, first);
  }
  if (!named) {
    throw_error(
        ErrorKind::kModel,
        "'{}': this is part 1 of {}, but its name does not end in '{}', so the other parts cannot be found; give the "
        "parts their own names (parts are not joined with cat)",
        path, place.n_parts, suffix);
  }
  return prefix;
}

}  // namespace

ModelFile::ModelFile(const std::filesystem::path& path, MappedFile::Mode mode) {
  parts_.emplace_back(path, mode);
  header_ = naming_path(parts_[0].path().string(), [this] { return parse(parts_[0].bytes()); });
  const auto attach = [](Header& header, const MappedFile& file) {
    const auto data = header.tensors.empty() ? std::span<const std::byte>() : file.bytes().subspan(header.data_offset);
    for (TensorInfo& tensor : header.tensors) tensor.data = data.subspan(tensor.offset, tensor.n_bytes);
  };
  attach(header_, parts_[0]);
  const Place first = naming_path(parts_[0].path().string(), [this] { return place_of(header_); });
  if (first.n_parts == 1) return;
  const std::string prefix = prefix_of_set(first, parts_[0]);
  for (uint64_t i = 1; i < first.n_parts; ++i) {
    const std::filesystem::path part_path = prefix + part_suffix(i, first.n_parts);
    if (!std::filesystem::exists(part_path)) {
      throw_error(ErrorKind::kModel, "part {} of {} is missing: '{}'; all parts must lie beside the first", i + 1,
                  first.n_parts, part_path.string());
    }
    parts_.emplace_back(part_path, mode);
    const MappedFile& file = parts_.back();
    Header part = naming_path(file.path().string(), [&file] { return parse(file.bytes()); });
    const Place place = naming_path(file.path().string(), [&part] { return place_of(part); });
    if (place.part != i || place.n_parts != first.n_parts) {
      throw_error(ErrorKind::kModel, "'{}' is named part {} of {}, but says that it is part {} of {}",
                  part_path.string(), i + 1, first.n_parts, place.part + 1, place.n_parts);
    }
    attach(part, file);
    naming_path(file.path().string(), [&] { add_part(std::move(part), uint32_t(i)); });
  }
  check_total();
}

void ModelFile::add_part(Header&& part, uint32_t i) {
  for (const std::string_view key : {"general.architecture", "general.name"}) {
    const auto here = part.get_string(key), wanted = header_.get_string(key);
    if (here && here != wanted) {
      throw_error(ErrorKind::kModel, "this part is of another model: {} is {}, but {} in the first part", key,
                  quoted(*here), wanted ? quoted(*wanted) : "absent");
    }
  }
  const auto n_here = part.get_uint("split.tensors.count"), n_wanted = header_.get_uint("split.tensors.count");
  if (n_here && n_wanted && *n_here != *n_wanted) {
    throw_error(ErrorKind::kModel, "this part is of another model: split.tensors.count is {}, but {} in the first part",
                *n_here, *n_wanted);
  }
  for (TensorInfo& tensor : part.tensors) {
    tensor.part = i;
    if (!header_.tensor_index.emplace(tensor.name, header_.tensors.size()).second) {
      throw_error(ErrorKind::kModel, "tensor {} is in an earlier part too", quoted(tensor.name));
    }
    header_.tensors.push_back(std::move(tensor));
  }
}

void ModelFile::check_total() const {
  const auto n_tensors = header_.get_uint("split.tensors.count");
  if (n_tensors && *n_tensors != header_.tensors.size()) {
    throw_error(ErrorKind::kModel, "'{}': found {} tensors in {} parts, but split.tensors.count is {}",
                parts_[0].path().string(), header_.tensors.size(), parts_.size(), *n_tensors);
  }
}

uint64_t ModelFile::total_bytes() const {
  uint64_t n_bytes = 0;
  for (const MappedFile& part : parts_) n_bytes += part.bytes().size();
  return n_bytes;
}

}  // namespace quern::gguf
