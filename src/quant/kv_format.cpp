// Sizes and names of the cache's element types, one table row a type.
#include "quant/kv_format.h"

#include <array>

#include "base/rounding.h"

namespace quern {
namespace {

struct TypeRow {
  KvType type;
  std::string_view name;
  std::string_view alias;  // what llama.cpp calls the type of the same size
  size_t element_bits;
  size_t cell_bytes;
  bool rotated;
  bool integer_scores;
};

constexpr TypeRow kRows[] = {
    {KvType::kF32, "f32", "", 32, 4, false, false},    {KvType::kF16, "f16", "", 16, 2, false, false},
    {KvType::kBF16, "bf16", "", 16, 2, false, false},  {KvType::kInt8, "int8", "q8_0", 8, 4, true, true},
    {KvType::kFp8, "fp8", "", 8, 1, false, false},     {KvType::kInt4, "int4", "q4_0", 4, 4, true, true},
};
static_assert([] {
  for (size_t i = 0; i < std::size(kRows); ++i) {
    if (kRows[i].type != KvType(i)) return false;
  }
  return true;
}());

const TypeRow& row(KvType type) { return kRows[size_t(type)]; }

}  // namespace

std::string_view kv_type_name(KvType type) { return row(type).name; }

std::optional<KvType> parse_kv_type(std::string_view name) {
  for (const TypeRow& r : kRows) {
    if (name == r.name || (!r.alias.empty() && name == r.alias)) return r.type;
  }
  return std::nullopt;
}

std::span<const KvType> all_kv_types() {
  static constexpr auto types = [] {
    std::array<KvType, std::size(kRows)> t{};
    for (size_t i = 0; i < t.size(); ++i) t[i] = kRows[i].type;
    return t;
  }();
  return types;
}

size_t kv_element_bits(KvType type) { return row(type).element_bits; }
size_t kv_cell_bytes(KvType type) { return row(type).cell_bytes; }

size_t kv_scale_groups(KvType type, size_t dim) {
  switch (type) {
    case KvType::kInt8:
    case KvType::kInt4: return (dim + kKvGroup - 1) / kKvGroup;
    case KvType::kFp8: return 1;
    default: return 0;
  }
}

KvRowSize kv_row_size(KvType type, size_t dim) {
  const size_t scale_bytes = kv_scale_groups(type, dim) * 2;
  switch (type) {
    case KvType::kInt8: return {round_up(dim, 4), scale_bytes};
    case KvType::kInt4: return {dim / kKvGroup * (kKvGroup / 2) + round_up(dim % kKvGroup, 8) / 2, scale_bytes};
    default: return {dim * row(type).element_bits / 8, scale_bytes};
  }
}

size_t kv_block_bytes(KvType type, size_t dim) {
  if (dim == 0) return 0;
  return round_up(kPiecePositions * kv_row_size(type, dim).bytes() + (dim % kKvGroup ? kVectorSlack : 0), 64);
}

bool kv_type_is_rotated(KvType type) { return row(type).rotated; }
bool kv_type_has_integer_scores(KvType type) { return row(type).integer_scores; }

}  // namespace quern
