// What a key frame adds to scores (quant/kv_frame.h): q·R(p)·mean over the pairs of dimensions where the mean stands out, 16 positions
// as lanes. Included by attention.inl behind its vocabulary of blocks.
namespace quern::kernels::QUERN_ISA {
namespace {

/// scores += constant + Σ a·cos + b·sin of Q queries on T tiles; terms = [Q][a, b], cosines and sines [pair][2][256].
template <int Q, int T>
inline void frame_block(const AttendFrame& f, const float* offsets, const float* constants, size_t constant_stride, const float* terms, size_t term_floats, float* scores) {
  F32x16 acc[Q][T];
  for (int i = 0; i < Q; ++i) {
    for (int t = 0; t < T; ++t) acc[i][t] = add(load(scores + i * kPiecePositions + t * kTile), set1(constants[i * constant_stride]));
  }
  for (size_t j = 0; j < f.n_pairs; ++j) {
    const float* cosines = offsets + 2 * f.pairs[j] * kPiecePositions;
    F32x16 cosine[T], sine[T];
    for (int t = 0; t < T; ++t) {
      cosine[t] = load(cosines + t * kTile);
      sine[t] = load(cosines + kPiecePositions + t * kTile);
    }
    for (int i = 0; i < Q; ++i) {
      const F32x16 a = set1(terms[2 * i * term_floats + j]), b = set1(terms[(2 * i + 1) * term_floats + j]);
      for (int t = 0; t < T; ++t) acc[i][t] = fma(b, sine[t], fma(a, cosine[t], acc[i][t]));
    }
  }
  for (int i = 0; i < Q; ++i) {
    for (int t = 0; t < T; ++t) store(scores + i * kPiecePositions + t * kTile, acc[i][t]);
  }
}

/// The frame's part of all queries' scores with tiles [first, last).
void add_frame(const AttendPiece& a, size_t first, size_t last, float* scores, float* scratch) {
  const AttendFrame& f = *a.frame;
  const size_t n = query_term_floats(a.k_dim), stride = query_bytes(a.k_type, a.k_dim), terms_at = query_terms_offset(a.k_type, a.k_dim);
  float* const c = scratch;  // of the piece's first position, for the pairs in question
  float* const s = c + n;
  for (size_t j = 0; j < n; ++j) {
    c[j] = j < f.n_pairs ? f.angles[2 * f.pairs[j]] : 0.0f;
    s[j] = j < f.n_pairs ? f.angles[2 * f.pairs[j] + 1] : 0.0f;
  }
  float* const turned = s + n;
  for (size_t i = 0; i < a.n_queries; ++i) {
    const float* from = reinterpret_cast<const float*>(a.queries + i * stride + terms_at) + 16;
    float* to = turned + 2 * i * n;
    for (size_t j = 0; j < f.n_pairs; j += 16) {
      const F32x16 ta = load(from + j), tb = load(from + n + j), tc = load(c + j), ts = load(s + j);
      store(to + j, fma(ta, tc, mul(tb, ts)));
      store(to + n + j, fnma(ta, ts, mul(tb, tc)));
    }
  }
  for_query_blocks(0, a.n_queries, [&](size_t i, auto q) {
    constexpr int kQ = decltype(q)::value;
    const float* constants = reinterpret_cast<const float*>(a.queries + i * stride + terms_at);
    for_vector_blocks<block_vectors(kQ)>(first, last - first, [&](size_t t, auto tiles) {
      frame_block<kQ, decltype(tiles)::value>(f, f.offsets + t * kTile, constants, stride / sizeof(float), turned + 2 * i * n, n, scores + i * kPiecePositions + t * kTile);
    });
  });
}

}  // namespace
}  // namespace quern::kernels::QUERN_ISA
