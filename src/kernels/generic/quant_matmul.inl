// The walk over a quantized matrix, the same for one token and for many: a strip of rows × 256 columns is unpacked to a panel, which stays
// in L1 while all tokens pass over it; one token does without the panel. Included after bytes.h, tile.h and direct.h of an instruction set.
namespace quern::kernels::QUERN_ISA {
namespace {

/// Asks for a panel's columns of n_tokens: all activations of a long prompt do not fit L2, and every strip reads them anew.
[[gnu::always_inline]] inline void prefetch_tile(const ActTile& x, size_t n_groups, size_t n_tokens) {
  for (size_t t = 0; t < n_tokens; ++t) {
    const auto fetch = [](const void* begin, size_t n_bytes) {
      for (size_t at = 0; at < n_bytes; at += 64) __builtin_prefetch(static_cast<const std::byte*>(begin) + at, 0, 3);
    };
    fetch(x.codes + t * x.group_stride * kActGroup, n_groups * kActGroup);
    fetch(x.groups + t * x.group_stride, n_groups * sizeof(ActGroup));
  }
}

/// As many tokens as a tile may take, in tiles as even as can be: the cost grows smoothly with n_tokens.
template <TensorType kType>
void multiply(const Panel& panel, size_t n_groups, ActTile x, size_t n_tokens, TileSums sums) {
  static constexpr int kMaxTileTokens = max_tile_tokens(group_form_of(kType));
  using TileFunction = void (*)(const Panel&, size_t, const ActTile&, const TileSums&);
  static constexpr auto kTiles = []<int... kI>(std::integer_sequence<int, kI...>) {
    return std::array<TileFunction, sizeof...(kI)>{tile<kType, kI + 1>...};
  }(std::make_integer_sequence<int, kMaxTileTokens>());
  for (size_t n_tiles = (n_tokens + kMaxTileTokens - 1) / kMaxTileTokens; n_tiles > 0; --n_tiles) {
    const size_t n = (n_tokens + n_tiles - 1) / n_tiles;
    const ActTile now = x;
    x.codes += n * x.group_stride * kActGroup;
    x.groups += n * x.group_stride;
    n_tokens -= n;
    prefetch_tile(x, n_groups, std::min<size_t>(n_tokens, kMaxTileTokens));
    kTiles[n - 1](panel, n_groups, now, sums);
    sums = sums.at(n);
  }
}

/// Asks for the weights ahead of the reading, in step with it: a strip ahead, or as many as fill kLeastBytes. Rows are streams too short for
/// the hardware's prefetchers, so memory is asked for in ascending order, but at kPlaces at once: a prefetcher that follows has to start
/// anew in every page, and the other places go on meanwhile.
class Ahead {
 public:
  Ahead(const std::byte* begin, const std::byte* end, size_t strip_bytes)
      : next_(begin), end_(end), span_strips_((kLeastBytes + strip_bytes - 1) / strip_bytes), span_bytes_(span_strips_ * strip_bytes) {
    start_span();
    read(span_bytes_);
    start_span();
  }

  /// So many bytes more have been read: asks for as many.
  [[gnu::always_inline]] void read(size_t n_bytes) {
    owed_ += ptrdiff_t(n_bytes);
    for (; owed_ >= kStep; owed_ -= kStep, at_ += kLine) {
      for (size_t place = 0; place < kPlaces; ++place) __builtin_prefetch(at_ + place * part_bytes_, 0, 2);
    }
  }
  /// A strip has been read.
  void strip_done() {
    if (--strips_left_ == 0) start_span();
  }

 private:
  static constexpr size_t kLeastBytes = 16 << 10, kPlaces = 4, kLine = 64;
  static constexpr ptrdiff_t kStep = kPlaces * kLine;

  void start_span() {
    const size_t n = std::min(span_bytes_, size_t(end_ - next_));
    at_ = next_;
    part_bytes_ = n / kPlaces;
    owed_ = n > 0 ? 0 : std::numeric_limits<ptrdiff_t>::min() / 2;
    next_ += n;
    strips_left_ = span_strips_;
  }

  const std::byte *at_, *next_, *end_;
  size_t span_strips_, span_bytes_, part_bytes_, strips_left_;
  ptrdiff_t owed_;
};

/// Unpacks n_groups of a strip.
template <TensorType kType>
void unpack_panel(Rows rows, size_t n_groups, Panel& panel, Ahead* ahead) {
  constexpr size_t kBlockGroups = kBlockElems<kType> / kGroupElems;
  for (size_t g = 0; g < n_groups; g += kBlockGroups) {
    if (ahead) ahead->read(kPanelRows * kBlockBytes<kType>);
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
    unpack_panel<kType>({bytes[0], sizeof bytes[0]}, n_groups, panel, nullptr);
    for (size_t t = 0; t < args.n_tokens; ++t) {
      float* y = args.y + t * args.y_stride + first_row;
      alignas(64) float copy[kPanelRows] = {};
      if (g > 0) std::memcpy(copy, y, n_rows * sizeof(float));
      multiply<kType>(panel, n_groups, act_tile(args.x, t, g), 1, {g > 0 ? copy : nullptr, kPanelRows, copy, kPanelRows});
      std::memcpy(y, copy, n_rows * sizeof(float));
    }
  }
}

/// A strip times all tokens, by way of the panel. Sums wait side by side for the next columns: y's rows are a large, often even number of
/// lines apart, so that theirs would push each other out of the caches.
template <TensorType kType>
void multiply_strip(const QuantMatmul& args, size_t r, Ahead& ahead) {
  constexpr size_t kBlockGroups = kBlockElems<kType> / kGroupElems;
  Panel& panel = *reinterpret_cast<Panel*>(args.scratch);
  float* const sums = reinterpret_cast<float*>(args.scratch + sizeof(Panel));
  for (size_t g = 0; g < args.x.n_groups; g += kPanelGroups) {
    const size_t n_groups = std::min(kPanelGroups, args.x.n_groups - g);
    const Rows block{args.weights + r * args.row_bytes + g / kBlockGroups * kBlockBytes<kType>, args.row_bytes};
    unpack_panel<kType>(block, n_groups, panel, &ahead);
    const bool last = g + n_groups == args.x.n_groups;
    multiply<kType>(panel, n_groups, act_tile(args.x, 0, g), args.n_tokens,
                    {g > 0 ? sums : nullptr, kPanelRows, last ? args.y + r : sums, last ? args.y_stride : kPanelRows});
  }
}

/// A vector of rows times one token, without a panel.
template <TensorType kType>
void multiply_strip_by_one(const QuantMatmul& args, size_t r, Ahead& ahead) {
  constexpr size_t kBlockGroups = kBlockElems<kType> / kGroupElems;
  Rows rows{args.weights + r * args.row_bytes, args.row_bytes};
  auto acc = DirectPart<kType>::start();
  for (size_t g = 0; g < args.x.n_groups; g += kBlockGroups, rows.base += kBlockBytes<kType>) {
    ahead.read(kPartRows * kBlockBytes<kType>);
    add_block<kType>(rows, act_tile(args.x, 0, g), acc);
  }
  DirectPart<kType>::store(args.y + r, acc);
}

template <TensorType kType>
void quant_matmul_of(const QuantMatmul& args) {
  const bool direct = args.n_tokens == 1;
  const auto strip = direct ? multiply_strip_by_one<kType> : multiply_strip<kType>;
  const size_t strip_rows = direct ? kPartRows : kPanelRows;
  Ahead ahead(args.weights, args.weights + args.n_rows * args.row_bytes, strip_rows * args.row_bytes);
  size_t r = 0;
  for (; r + strip_rows <= args.n_rows; r += strip_rows) {
    strip(args, r, ahead);
    ahead.strip_done();
  }
  if (r < args.n_rows) multiply_last_rows<kType>(args, r, *reinterpret_cast<Panel*>(args.scratch));
}

void quant_matmul(const QuantMatmul& args) {  // callers ask find_group_form first
  with_block(WeightBlocks(), args.type, [&]<typename Block>() { quant_matmul_of<Block::kType>(args); });
}

}  // namespace
}  // namespace quern::kernels::QUERN_ISA
