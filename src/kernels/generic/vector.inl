// The building blocks of a layer that are not products: norms, rope, activations, softmax pieces. Written once over the lane
// vocabulary; kernels.h states what each computes and in which order.
#include "kernels/generic/math.inl"
#include "kernels/tables.h"

namespace quern::kernels::QUERN_ISA {
namespace {

/// Calls full(offset) for each run of 16 elements and tail(offset, count) for what is left.
template <typename Full, typename Tail>
inline void for_lanes(size_t n, Full full, Tail tail) {
  size_t i = 0;
  for (; i + 16 <= n; i += 16) full(i);
  if (i < n) tail(i, n - i);
}

/// out[i] = f(a[i])
template <typename F>
inline void map1(const float* a, float* out, size_t n, F f) {
  for_lanes(
      n, [&](size_t i) { store(out + i, f(load(a + i))); },
      [&](size_t i, size_t count) { store_tail(out + i, f(load_tail(a + i, count)), count); });
}

/// out[i] = f(a[i], b[i])
template <typename F>
inline void map2(const float* a, const float* b, float* out, size_t n, F f) {
  for_lanes(
      n, [&](size_t i) { store(out + i, f(load(a + i), load(b + i))); },
      [&](size_t i, size_t count) { store_tail(out + i, f(load_tail(a + i, count), load_tail(b + i, count)), count); });
}

float dot(const float* a, const float* b, size_t n) {
  F32x16 acc = zero();
  for_lanes(
      n, [&](size_t i) { acc = fma(load(a + i), load(b + i), acc); },
      [&](size_t i, size_t count) { acc = fma(load_tail(a + i, count), load_tail(b + i, count), acc); });
  return sum_lanes(acc);
}

void rms_norm(const float* x, const float* weight, float eps, float* out, size_t n) {
  const F32x16 s = set1(1.0f / sqrt_f32(dot(x, x, n) / float(n) + eps));
  if (weight) map2(x, weight, out, n, [&](F32x16 a, F32x16 w) { return mul(mul(a, s), w); });
  else map1(x, out, n, [&](F32x16 a) { return mul(a, s); });
}

void layer_norm(const float* x, const float* weight, const float* bias, float eps, float* out, size_t n) {
  F32x16 sum = zero();
  for_lanes(
      n, [&](size_t i) { sum = add(sum, load(x + i)); }, [&](size_t i, size_t count) { sum = add(sum, load_tail(x + i, count)); });
  const F32x16 mean = set1(sum_lanes(sum) / float(n));
  map1(x, out, n, [&](F32x16 a) { return sub(a, mean); });
  const F32x16 s = set1(1.0f / sqrt_f32(dot(out, out, n) / float(n) + eps));
  map1(out, out, n, [&](F32x16 a) { return mul(a, s); });
  if (weight) map2(out, weight, out, n, [](F32x16 a, F32x16 w) { return mul(a, w); });
  if (bias) map2(out, bias, out, n, [](F32x16 a, F32x16 b) { return add(a, b); });
}

/// (a, b) turned by the angle: (a·c − b·s, b·c + a·s), each one product rounded and one fma.
inline void rotate_pair(float& a, float& b, float c, float s) {
  const float x = a, y = b;
  a = __builtin_fmaf(-y, s, x * c);
  b = __builtin_fmaf(x, s, y * c);
}

void rope_interleaved(float* x, const float* cos_sin, size_t n_pairs) {
  for (size_t i = 0; i < n_pairs; ++i) rotate_pair(x[2 * i], x[2 * i + 1], cos_sin[2 * i], cos_sin[2 * i + 1]);
}

void rope_half(float* x, const float* cos_sin, size_t n_pairs) {
  for (size_t i = 0; i < n_pairs; ++i) rotate_pair(x[i], x[i + n_pairs], cos_sin[2 * i], cos_sin[2 * i + 1]);
}

/// out[i] = f(gate[i]) · up[i], without the factor where up is null
template <typename F>
inline void activate(const float* gate, const float* up, float* out, size_t n, F f) {
  if (up) map2(gate, up, out, n, [&](F32x16 g, F32x16 u) { return mul(f(g), u); });
  else map1(gate, out, n, f);
}

void silu_mul(const float* gate, const float* up, float* out, size_t n) {
  activate(gate, up, out, n, [](F32x16 g) { return times_sigmoid16(g, g); });
}

/// GELU's tanh form, x·sigmoid(2·√(2/π)·(x + 0.044715·x³)) (arXiv 1606.08415).
inline F32x16 gelu16(F32x16 x) {
  const F32x16 inner = mul(x, fma(mul(x, x), set1(0.044715f), set1(1.0f)));
  return times_sigmoid16(x, mul(inner, set1(1.5957691216f)));
}

void gelu_mul(const float* gate, const float* up, float* out, size_t n) {
  activate(gate, up, out, n, [](F32x16 g) { return gelu16(g); });
}

void relu_squared_mul(const float* gate, const float* up, float* out, size_t n) {
  activate(gate, up, out, n, [](F32x16 g) {
    const F32x16 positive = max(zero(), g);  // in this order NaN stays NaN
    return mul(positive, positive);
  });
}

void clamped_swiglu_mul(const float* gate, const float* up, float limit, float* out, size_t n) {
  const F32x16 most = set1(limit), least = set1(-limit), one = set1(1.0f), slope = set1(1.702f);
  const auto inner = [&](F32x16 g) {
    g = min(most, g);
    return times_sigmoid16(g, mul(g, slope));
  };
  if (up) map2(gate, up, out, n, [&](F32x16 g, F32x16 u) { return mul(add(max(least, min(most, u)), one), inner(g)); });
  else map1(gate, out, n, inner);
}

void sigmoid(const float* x, float* out, size_t n) {
  map1(x, out, n, [](F32x16 a) { return times_sigmoid16(set1(1.0f), a); });
}

void add_rows(const float* a, const float* b, float* out, size_t n) {
  map2(a, b, out, n, [](F32x16 x, F32x16 y) { return add(x, y); });
}

void add_scaled(const float* a, const float* x, float factor, float* out, size_t n) {
  const F32x16 f = set1(factor);
  map2(a, x, out, n, [&](F32x16 sum, F32x16 b) { return fma(b, f, sum); });
}

void scale(float* x, float factor, size_t n) {
  const F32x16 f = set1(factor);
  map1(x, x, n, [&](F32x16 a) { return mul(a, f); });
}

void clamp(float* x, float limit, size_t n) {
  const F32x16 high = set1(limit), low = set1(-limit);
  map1(x, x, n, [&](F32x16 a) { return max(low, min(high, a)); });
}

void softcap(float* x, float cap, size_t n) {
  const F32x16 c = set1(cap);
  map1(x, x, n, [&](F32x16 a) { return mul(c, tanh16(div(a, c))); });
}

float exp_sum(const float* x, float max_value, float* out, size_t n) {
  const F32x16 m = set1(max_value);
  F32x16 sum = zero();
  for_lanes(
      n,
      [&](size_t i) {
        const F32x16 p = exp16(sub(load(x + i), m));
        store(out + i, p);
        sum = add(sum, p);
      },
      [&](size_t i, size_t count) {
        const F32x16 p = exp16(sub(load_tail(x + i, count), m));
        store_tail(out + i, p, count);
        sum = add(sum, select(lane_range(0, count), p, zero()));
      });
  return sum_lanes(sum);
}

float max_of(const float* x, size_t n) {
  const F32x16 lowest = set1(-__builtin_inff());
  F32x16 best = lowest;
  for_lanes(
      n, [&](size_t i) { best = max(load(x + i), best); },
      [&](size_t i, size_t count) { best = max(select(lane_range(0, count), load_tail(x + i, count), lowest), best); });
  return max_lanes(best);
}

size_t argmax(const float* x, size_t n) {
  const float best = max_of(x, n);
  for (size_t i = 0; i < n; ++i) {
    if (x[i] == best) return i;
  }
  return 0;
}

bool all_finite(const float* x, size_t n) {
  bool bad = false;
  for_lanes(
      n, [&](size_t i) { bad |= any_nonfinite(load(x + i)); }, [&](size_t i, size_t count) { bad |= any_nonfinite(load_tail(x + i, count)); });
  return !bad;
}

void hadamard_part(float* x, size_t n) {
  for (size_t h = 1; h < n; h *= 2) {
    for (size_t block = 0; block < n; block += 2 * h) {
      for (size_t i = block; i < block + h; ++i) {
        const float a = x[i], b = x[i + h];
        x[i] = a + b;
        x[i + h] = a - b;
      }
    }
  }
  scale(x, 1.0f / sqrt_f32(float(n)), n);
}

void hadamard(float* x, size_t n) {
  for (size_t done = 0; done < n;) {
    size_t part = 1;
    while (part * 2 <= n - done) part *= 2;
    hadamard_part(x + done, part);
    done += part;
  }
}

}  // namespace

const VectorKernels* vector_kernels() {
  static const VectorKernels table = {dot,    rms_norm,  layer_norm,         rope_interleaved, rope_half, silu_mul,   gelu_mul,
                                      relu_squared_mul,  clamped_swiglu_mul, sigmoid,          add_rows,  add_scaled, scale,
                                      clamp,  softcap, exp_sum,  max_of,             argmax,           all_finite, hadamard};
  return &table;
}

}  // namespace quern::kernels::QUERN_ISA
