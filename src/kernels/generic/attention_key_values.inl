// Values that are the first dimensions of the keys (latent attention): rows of float32 are taken out of the key tiles a few at a
// time, which costs little beside the many queries that share them. Included by attention.inl behind its scores and values.
namespace quern::kernels::QUERN_ISA {
namespace {

/// Positions of a K tile as rows: rows[position][d] for d < n_dims, by a function from d to 16 positions.
template <typename LoadDim>
inline void tile_to_rows(size_t n_dims, float* rows, size_t stride, LoadDim load_dim) {
  for (size_t d = 0; d < n_dims; ++d) {
    float lanes16[kTile];
    store(lanes16, load_dim(d));
    for (size_t i = 0; i < kTile; ++i) rows[i * stride + d] = lanes16[i];
  }
}

/// scales = [group][256] of integer keys. Cells of int8: 4 dimensions; of int4: byte i of a group holds dimensions i and half + i.
inline void int8_tile_to_rows(const std::byte* tile, size_t n_dims, const float* scales, float* rows, size_t stride) {
  const int8_t* codes = reinterpret_cast<const int8_t*>(tile);
  for (size_t d = 0; d < n_dims; ++d) {
    const float* scale = scales + d / kKvGroup * kPiecePositions;
    for (size_t i = 0; i < kTile; ++i) rows[i * stride + d] = float(codes[(d / 4 * kTile + i) * 4 + d % 4]) * scale[i];
  }
}
inline void int4_tile_to_rows(const std::byte* tile, size_t k_dim, size_t n_dims, const float* scales, float* rows, size_t stride) {
  for (size_t d = 0; d < n_dims; ++d) {
    const size_t group = d / kKvGroup, in_group = d % kKvGroup, half = (lesser(kKvGroup, k_dim - group * kKvGroup) + 7) / 8 * 4;
    const size_t byte = group * (kKvGroup / 2) + in_group % half;
    const uint8_t* codes = reinterpret_cast<const uint8_t*>(tile) + byte / 4 * kTile * 4 + byte % 4;
    const float* scale = scales + group * kPiecePositions;
    for (size_t i = 0; i < kTile; ++i) rows[i * stride + d] = float(int(in_group < half ? codes[i * 4] & 15 : codes[i * 4] >> 4) - 8) * scale[i];
  }
}

/// Tile t of the keys as rows of float32.
void key_tile_to_rows(const AttendPiece& a, size_t t, const float* scales, float* rows, size_t stride) {
  const size_t n_dims = lesser(stride, a.k_dim);
  const std::byte* tile = a.k_block + t * kTile * kv_row_size(a.k_type, a.k_dim).code_bytes;
  switch (a.k_type) {
    case KvType::kF32: tile_to_rows(n_dims, rows, stride, [&](size_t d) { return KeysF32::load(tile, d); }); break;
    case KvType::kF16: tile_to_rows(n_dims, rows, stride, [&](size_t d) { return KeysF16::load(tile, d); }); break;
    case KvType::kBF16: tile_to_rows(n_dims, rows, stride, [&](size_t d) { return KeysBF16::load(tile, d); }); break;
    case KvType::kFp8: {
      const F32x16 scale = load(scales + t * kTile);
      tile_to_rows(n_dims, rows, stride, [&](size_t d) { return mul(KeysFp8::load(tile, d), scale); });
      break;
    }
    case KvType::kInt8: int8_tile_to_rows(tile, n_dims, scales + t * kTile, rows, stride); break;
    case KvType::kInt4: int4_tile_to_rows(tile, a.k_dim, n_dims, scales + t * kTile, rows, stride); break;
  }
  for (size_t i = 0; i < kTile; ++i) {
    for (size_t d = n_dims; d < stride; ++d) rows[i * stride + d] = 0.0f;
  }
}

/// As sum_values, the rows taken out of the keys a few tiles at a time.
void sum_values_in_keys(const AttendPiece& a, size_t begin, size_t end, const float* p, float* scales, float* converted) {
  const size_t stride = (a.v_dim + 15) / 16 * 16;
  const uint16_t* key_scales = scales_of(a.k_block, a.k_type, a.k_dim);
  const F32x16 factor = set1(a.k_type == KvType::kFp8 ? 256.0f : 1.0f);
  for (size_t group = 0; group < kv_scale_groups(a.k_type, lesser(stride, a.k_dim)); ++group) {
    for (size_t i = begin / kTile * kTile; i < end; i += kTile) store(scales + group * kPiecePositions + i, mul(load_f16(key_scales + group * kPiecePositions + i), factor));
  }
  for (size_t b = begin / kTile * kTile; b < end; b += kValueRowsAtOnce) {
    const size_t e = lesser(end, b + kValueRowsAtOnce);
    for (size_t t = b / kTile; t * kTile < e; ++t) key_tile_to_rows(a, t, scales, converted + (t * kTile - b) * stride, stride);
    value_positions(a, ValuesF32{reinterpret_cast<const std::byte*>(converted), stride * sizeof(float), b}, larger(b, begin), e, p);
  }
}

}  // namespace
}  // namespace quern::kernels::QUERN_ISA
