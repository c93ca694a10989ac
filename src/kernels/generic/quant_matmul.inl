// The walk over a quantized matrix, the same for one token and for many: a strip of rows × 256 columns is unpacked to a panel, which stays
// in L1 while all tokens pass over it; where an instruction set has direct.h, one token does without the panel. Included after bytes.h and tile.h of an instruction set.
namespace quern::kernels::QUERN_ISA {
namespace {

/// As many tokens as a tile may take, in tiles as even as can be: the cost grows smoothly with n_tokens.
template <TensorType kType>
void multiply(const Panel& panel, size_t n_groups, ActTile x, size_t n_tokens, float* y, size_t y_stride, bool first) {
  static constexpr int kMaxTileTokens = max_tile_tokens(group_form_of(kType));
  using TileFunction = void (*)(const Panel&, size_t, const ActTile&, float*, size_t, bool);
  static constexpr auto kTiles = []<int... kI>(std::integer_sequence<int, kI...>) {
    return std::array<TileFunction, sizeof...(kI)>{tile<kType, kI + 1>...};
  }(std::make_integer_sequence<int, kMaxTileTokens>());
  for (size_t n_tiles = (n_tokens + kMaxTileTokens - 1) / kMaxTileTokens; n_tiles > 0; --n_tiles) {
    const size_t n = (n_tokens + n_tiles - 1) / n_tiles;
    kTiles[n - 1](panel, n_groups, x, y, y_stride, first);
    n_tokens -= n;
    x.codes += n * x.group_stride * kActGroup;
    x.groups += n * x.group_stride;
    y += n * y_stride;
  }
}

/// Short rows are streams too short for the hardware's prefetchers, so memory is asked for in address order, a strip ahead
/// or more where a strip is shorter than this. Farther would delay the start of a call.
inline constexpr size_t kPrefetchBytes = 8 << 10;
inline void prefetch(const std::byte* begin, const std::byte* end) {
  for (; begin < end; begin += 64) __builtin_prefetch(begin, 0, 2);
}

/// Unpacks n_groups of a strip and asks for [next, next + next_bytes) meanwhile, a little with each block.
template <TensorType kType>
void unpack_panel(Rows rows, size_t n_groups, Panel& panel, const std::byte* next, size_t next_bytes) {
  constexpr size_t kBlockGroups = kBlockElems<kType> / kGroupElems;
  for (size_t g = 0; g < n_groups; g += kBlockGroups) {
    prefetch(next + next_bytes * g / n_groups, next + next_bytes * (g + kBlockGroups) / n_groups);
    for (size_t first = 0; first < kPanelRows; first += kPartRows) {
      Part<kType> part(panel, first);
      Unpack<kType>::unpack({rows.base + first * rows.stride + g / kBlockGroups * kBlockBytes<kType>, rows.stride}, part, g);
    }
  }
}

/// Fewer rows than a strip: their bytes are copied, the missing rows zero, and y goes through a copy too.
template <TensorType kType>
void multiply_last_rows(const QuantMatmul& args, size_t first_row, Panel& panel) {
  constexpr size_t kBlockGroups = kBlockElems<kType> / kGroupElems;
  const size_t n_rows = args.n_rows - first_row;
  alignas(64) std::byte bytes[kPanelRows][kPanelGroups / kBlockGroups * kBlockBytes<kType>] = {};
  for (size_t g = 0; g < args.x.n_groups; g += kPanelGroups) {
    const size_t n_groups = std::min(kPanelGroups, args.x.n_groups - g);
    for (size_t r = 0; r < n_rows; ++r) {
      std::memcpy(bytes[r], args.weights + (first_row + r) * args.row_bytes + g / kBlockGroups * kBlockBytes<kType>, n_groups / kBlockGroups * kBlockBytes<kType>);
    }
    unpack_panel<kType>({bytes[0], sizeof bytes[0]}, n_groups, panel, bytes[0], 0);
    for (size_t t = 0; t < args.n_tokens; ++t) {
      float* y = args.y + t * args.y_stride + first_row;
      alignas(64) float copy[kPanelRows] = {};
      if (g > 0) std::memcpy(copy, y, n_rows * sizeof(float));
      multiply<kType>(panel, n_groups, act_tile(args.x, t, g), 1, copy, kPanelRows, g == 0);
      std::memcpy(y, copy, n_rows * sizeof(float));
    }
  }
}

/// A strip times all tokens, by way of the panel.
template <TensorType kType>
void multiply_strip(const QuantMatmul& args, size_t r, const std::byte* next, size_t next_bytes) {
  constexpr size_t kBlockGroups = kBlockElems<kType> / kGroupElems;
  Panel& panel = *reinterpret_cast<Panel*>(args.scratch);
  for (size_t g = 0; g < args.x.n_groups; g += kPanelGroups) {
    const size_t n_groups = std::min(kPanelGroups, args.x.n_groups - g);
    const Rows block{args.weights + r * args.row_bytes + g / kBlockGroups * kBlockBytes<kType>, args.row_bytes};
    unpack_panel<kType>(block, n_groups, panel, next + next_bytes * g / args.x.n_groups, next_bytes * n_groups / args.x.n_groups);
    multiply<kType>(panel, n_groups, act_tile(args.x, 0, g), args.n_tokens, args.y + r, args.y_stride, g == 0);
  }
}

#ifdef QUERN_DIRECT
/// A vector of rows times one token, without a panel.
template <TensorType kType>
void multiply_strip_by_one(const QuantMatmul& args, size_t r, const std::byte* next, size_t next_bytes) {
  constexpr size_t kBlockGroups = kBlockElems<kType> / kGroupElems;
  Rows rows{args.weights + r * args.row_bytes, args.row_bytes};
  const size_t step_bytes = next_bytes * kBlockGroups / args.x.n_groups;
  auto acc = DirectPart<kType>::start();
  for (size_t g = 0; g < args.x.n_groups; g += kBlockGroups, rows.base += kBlockBytes<kType>, next += step_bytes) {
    prefetch(next, next + step_bytes);
    add_block<kType>(rows, act_tile(args.x, 0, g), acc);
  }
  DirectPart<kType>::store(args.y + r, acc);
}
#endif

template <TensorType kType>
void quant_matmul_of(const QuantMatmul& args) {
  auto strip = multiply_strip<kType>;
  size_t strip_rows = kPanelRows;
#ifdef QUERN_DIRECT
  if (args.n_tokens == 1) strip = multiply_strip_by_one<kType>, strip_rows = kPartRows;
#endif
  const std::byte* end = args.weights + args.n_rows * args.row_bytes;
  const size_t strip_bytes = strip_rows * args.row_bytes;
  const size_t ahead = strip_bytes * (1 + kPrefetchBytes / strip_bytes);
  prefetch(args.weights, std::min(end, args.weights + ahead));
  size_t r = 0;
  for (; r + strip_rows <= args.n_rows; r += strip_rows) {
    const std::byte* next = std::min(end, args.weights + r * args.row_bytes + ahead);
    strip(args, r, next, std::min(strip_bytes, size_t(end - next)));
  }
  if (r < args.n_rows) multiply_last_rows<kType>(args, r, *reinterpret_cast<Panel*>(args.scratch));
}

void quant_matmul(const QuantMatmul& args) {  // callers ask find_group_form first
  with_block(WeightBlocks(), args.type, [&]<typename Block>() { quant_matmul_of<Block::kType>(args); });
}

}  // namespace
}  // namespace quern::kernels::QUERN_ISA
