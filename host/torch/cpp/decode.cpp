// What one decoding step does between its matrix products, on the CPU, in f32, on the calling thread. Each function is
// several small operations of libtorch in one: those would spend as long in dispatch and in copies as in arithmetic.
//
// Axes: N tokens, B rows, H query heads, K key and value heads, C head width, S positions that a row has room for, I
// intermediate size. All arrays are dense.
#include <cmath>
#include <cstdint>
#include <cstring>

// One more copy of each function for processors with AVX and FMA, chosen when the library is loaded.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define FOR_EACH_PROCESSOR __attribute__((target_clones("fma", "default")))
#else
#define FOR_EACH_PROCESSOR
#endif
// Short loops over registers must be unrolled, or the registers become memory.
#define UNROLLED _Pragma("GCC unroll 8")
// Helpers must become part of each copy.
#define HELPER static inline __attribute__((always_inline))

namespace {

// Eight numbers side by side; compilers split them where registers are shorter.
typedef float Lanes __attribute__((vector_size(32)));
typedef int32_t IntegerLanes __attribute__((vector_size(32)));
constexpr int64_t kLanes = 8;

HELPER Lanes load(const float* from) {
  Lanes lanes;
  std::memcpy(&lanes, from, sizeof lanes);
  return lanes;
}

HELPER void store(float* to, const Lanes& lanes) { std::memcpy(to, &lanes, sizeof lanes); }

HELPER float sum(const Lanes& lanes) {
  typedef float Quad __attribute__((vector_size(16)));
  Quad halves[2];
  std::memcpy(halves, &lanes, sizeof halves);
  const Quad quad = halves[0] + halves[1];
  return (quad[0] + quad[2]) + (quad[1] + quad[3]);
}

// e^x within two units of the last place, between e^-87 and e^88: x = n ln 2 + r, and a polynomial for e^r (the
// coefficients are those of Cephes' expf).
HELPER Lanes exponential(Lanes x) {
  x = x > 88.0f ? Lanes{} + 88.0f : x;
  x = x < -87.0f ? Lanes{} - 87.0f : x;
  const Lanes scaled = x * 1.44269504f;
  const IntegerLanes whole = __builtin_convertvector(scaled + (scaled < 0.0f ? Lanes{} - 0.5f : Lanes{} + 0.5f), IntegerLanes);
  const Lanes n = __builtin_convertvector(whole, Lanes);
  const Lanes r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  Lanes p = 1.9875691500e-4f * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  const IntegerLanes bits = (whole + 127) << 23;
  Lanes power;
  std::memcpy(&power, &bits, sizeof power);
  return p * power;
}

// Calls body(offset, count) for every eight numbers, the last time with what is left.
template <typename F>
HELPER void by_lanes(int64_t n, F&& body) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) body(i, kLanes);
  if (i < n) body(i, n - i);
}

HELPER Lanes load_some(const float* from, int64_t count, float rest) {
  if (count == kLanes) return load(from);
  Lanes lanes = Lanes{} + rest;
  std::memcpy(&lanes, from, static_cast<size_t>(count) * sizeof(float));
  return lanes;
}

HELPER void store_some(float* to, const Lanes& lanes, int64_t count) {
  if (count == kLanes) return store(to, lanes);
  std::memcpy(to, &lanes, static_cast<size_t>(count) * sizeof(float));
}

// Turns a head by its position; the sines of the first half carry the minus.
HELPER void rotate(const float* head, const float* cosine, const float* sine, int64_t width, float* turned) {
  const int64_t half = width / 2;
  for (int64_t i = 0; i < half; ++i) {
    turned[i] = head[i] * cosine[i] + head[i + half] * sine[i];
    turned[i + half] = head[i + half] * cosine[i + half] + head[i] * sine[i + half];
  }
}

// Asks for the slot that is read 32 slots after t, so that it has come when its turn does: one of `here`, or beyond
// `last` one of what is read next. The processor's own prefetching stops at every page.
HELPER void prefetch(const float* here, const float* next, int64_t columns, int64_t width, int64_t t, int64_t last) {
  constexpr int64_t kAhead = 32, kLine = 16;
  const int64_t slot = t + kAhead;
  const float* line = slot < last ? here + slot * width : next + (slot - last) * width;
  for (int64_t c = 0; c < columns; c += kLine) __builtin_prefetch(line + c);
}

// Keys or values [S, C] of a row: the slots up to `cut` are read in another row that holds the same there, and that has
// just been read for others.
struct Slots {
  const float* shared;
  const float* own;
  int64_t cut;
};

// Products of Q queries with the keys of COUNT slots from t on.
template <int Q, int COUNT>
HELPER void score_slots(const float* queries, const float* keys, int64_t width, int64_t slots, int64_t t, float* scores) {
  const int64_t whole = width - width % kLanes;
  const float* key = keys + t * width;
  Lanes sums[Q][COUNT] = {};
  for (int64_t c = 0; c < whole; c += kLanes) {
    UNROLLED for (int i = 0; i < COUNT; ++i) {
      const Lanes lanes = load(key + i * width + c);
      UNROLLED for (int q = 0; q < Q; ++q) sums[q][i] += lanes * load(queries + q * width + c);
    }
  }
  UNROLLED for (int q = 0; q < Q; ++q) {
    UNROLLED for (int i = 0; i < COUNT; ++i) {
      float total = sum(sums[q][i]);
      for (int64_t c = whole; c < width; ++c) total += key[i * width + c] * queries[q * width + c];
      scores[q * slots + t + i] = total;
    }
  }
}

// Products of Q queries with the keys of the slots first..last of one row.
template <int Q>
HELPER void score_part(const float* queries, const float* keys, const float* next, int64_t width, int64_t slots, int64_t first, int64_t last, float* scores) {
  int64_t t = first;
  for (; t + 4 <= last; t += 4) {
    for (int i = 0; i < 4; ++i) prefetch(keys, next, width, width, t + i, last);
    score_slots<Q, 4>(queries, keys, width, slots, t, scores);
  }
  for (; t < last; ++t) score_slots<Q, 1>(queries, keys, width, slots, t, scores);
}

// Products of Q queries with the keys of the slots up to `last`. Keys are read once, in the order of memory: a batch's
// cache is larger than the processor's.
template <int Q>
HELPER void score(const float* queries, const Slots& keys, const float* next, int64_t width, int64_t slots, int64_t last, float* scores) {
  score_part<Q>(queries, keys.shared, keys.own + keys.cut * width, width, slots, 0, keys.cut, scores);
  score_part<Q>(queries, keys.own, next, width, slots, keys.cut, last, scores);
}

// Scores to e^(score - largest), in place; gives one over their sum.
HELPER float softmax(float* scores, int64_t last) {
  Lanes largest = Lanes{} - INFINITY;
  by_lanes(last, [&](int64_t offset, int64_t count) {
    const Lanes lanes = load_some(scores + offset, count, -INFINITY);
    largest = lanes > largest ? lanes : largest;
  });
  float top = largest[0];
  for (int i = 1; i < kLanes; ++i) top = largest[i] > top ? largest[i] : top;
  Lanes total = {};
  by_lanes(last, [&](int64_t offset, int64_t count) {
    const Lanes lanes = exponential(load_some(scores + offset, count, 0.0f) - top);
    store_some(scores + offset, lanes, count);
    if (count == kLanes) {
      total += lanes;
    } else {
      for (int64_t i = 0; i < count; ++i) total[i] += lanes[i];
    }
  });
  return 1.0f / sum(total);
}

// Weighted sums of values over the slots up to `last`, BLOCKS * 8 columns of them, for Q queries at a time.
template <int Q, int BLOCKS>
HELPER void mix(const float* weights, const float* scales, const Slots& values, const float* next, int64_t width, int64_t slots, int64_t last, float* out) {
  Lanes sums[Q][BLOCKS] = {};
  for (int part = 0; part < 2; ++part) {
    const float* here = part == 0 ? values.shared : values.own;
    const float* then = part == 0 ? values.own + values.cut * width : next;
    const int64_t end = part == 0 ? values.cut : last;
    for (int64_t t = part == 0 ? 0 : values.cut; t < end; ++t) {
      prefetch(here, then, BLOCKS * kLanes, width, t, end);
      UNROLLED for (int block = 0; block < BLOCKS; ++block) {
        const Lanes value = load(here + t * width + block * kLanes);
        UNROLLED for (int q = 0; q < Q; ++q) sums[q][block] += value * weights[q * slots + t];
      }
    }
  }
  UNROLLED for (int q = 0; q < Q; ++q)
    UNROLLED for (int block = 0; block < BLOCKS; ++block) store(out + q * width + block * kLanes, sums[q][block] * scales[q]);
}

template <int Q>
HELPER void attend(const float* queries, const Slots& keys, const Slots& values, int64_t width, int64_t slots, int64_t last, float* scores, float* out) {
  score<Q>(queries, keys, values.shared, width, slots, last, scores);
  float scales[Q];
  for (int q = 0; q < Q; ++q) scales[q] = softmax(scores + q * slots, last);
  const auto columns = [&](int64_t c) { return Slots{values.shared + c, values.own + c, values.cut}; };
  const float* next = keys.own + slots * width;
  int64_t c = 0;
  for (; c + 4 * kLanes <= width; c += 4 * kLanes) mix<Q, 4>(scores, scales, columns(c), next, width, slots, last, out + c);
  for (; c + kLanes <= width; c += kLanes) mix<Q, 1>(scores, scales, columns(c), next, width, slots, last, out + c);
  for (; c < width; ++c) {
    for (int q = 0; q < Q; ++q) {
      float total = 0.0f;
      for (int64_t t = 0; t < last; ++t)
        total += scores[q * slots + t] * (t < values.cut ? values.shared : values.own)[t * width + c];
      out[q * width + c] = total * scales[q];
    }
  }
}

}  // namespace

extern "C" {

// For each of N tokens in turn: rotates its queries and its key by its position, puts key and value into the cache of its
// row, and attends to the row's positions up to its own; those before `shared` are read in the row of `sources`, which holds
// the same there. Tokens of one row come in the order of their positions. Queries are scaled already.
//
// qkv [N, H + 2 K, C]; cosine, sine [positions, C]; rows, positions, sources, shared [N], shared at most the position;
// keys, values [B, K, S, C]; scratch [H / K * C + 2 S]; out [N, H, C].
FOR_EACH_PROCESSOR
void accredit_decode_attention(const float* qkv, const float* cosine, const float* sine, const int64_t* rows,
                               const int64_t* positions, const int64_t* sources, const int64_t* shared, float* keys,
                               float* values, float* scratch, float* out, int64_t tokens, int64_t heads,
                               int64_t kv_heads, int64_t width, int64_t slots) {
  const int64_t group = heads / kv_heads;
  float* queries = scratch;
  float* scores = queries + group * width;
  for (int64_t token = 0; token < tokens; ++token) {
    const float* heads_of_token = qkv + token * (heads + 2 * kv_heads) * width;
    const int64_t position = positions[token];
    const float* turn[2] = {cosine + position * width, sine + position * width};
    for (int64_t k = 0; k < kv_heads; ++k) {
      const int64_t here = (rows[token] * kv_heads + k) * slots * width;
      const int64_t source = (sources[token] * kv_heads + k) * slots * width;
      for (int64_t g = 0; g < group; ++g)
        rotate(heads_of_token + (k * group + g) * width, turn[0], turn[1], width, queries + g * width);
      rotate(heads_of_token + (heads + k) * width, turn[0], turn[1], width, keys + here + position * width);
      std::memcpy(values + here + position * width, heads_of_token + (heads + kv_heads + k) * width, static_cast<size_t>(width) * sizeof(float));
      const Slots all_keys{keys + source, keys + here, shared[token]};
      const Slots all_values{values + source, values + here, shared[token]};
      float* to = out + (token * heads + k * group) * width;
      int64_t g = 0;
      for (; g + 2 <= group; g += 2)
        attend<2>(queries + g * width, all_keys, all_values, width, slots, position + 1, scores, to + g * width);
      if (g < group)
        attend<1>(queries + g * width, all_keys, all_values, width, slots, position + 1, scores, to + g * width);
    }
  }
}

// RMSNorm without a weight: x [B, n] to out [B, n].
FOR_EACH_PROCESSOR
void accredit_decode_rms(const float* x, float* out, int64_t rows, int64_t n, float eps) {
  for (int64_t row = 0; row < rows; ++row) {
    const float* from = x + row * n;
    float* to = out + row * n;
    Lanes squares = {};
    by_lanes(n, [&](int64_t offset, int64_t count) {
      const Lanes lanes = load_some(from + offset, count, 0.0f);
      squares += lanes * lanes;
    });
    const float scale = 1.0f / std::sqrt(sum(squares) / static_cast<float>(n) + eps);
    by_lanes(n, [&](int64_t offset, int64_t count) {
      store_some(to + offset, load_some(from + offset, count, 0.0f) * scale, count);
    });
  }
}

// silu(gate) * up: gate_up [B, 2 I], gate first, to out [B, I].
FOR_EACH_PROCESSOR
void accredit_decode_swiglu(const float* gate_up, float* out, int64_t rows, int64_t inner) {
  for (int64_t row = 0; row < rows; ++row) {
    const float* gate = gate_up + row * 2 * inner;
    by_lanes(inner, [&](int64_t offset, int64_t count) {
      const Lanes g = load_some(gate + offset, count, 0.0f);
      const Lanes u = load_some(gate + inner + offset, count, 0.0f);
      store_some(out + row * inner + offset, g / (1.0f + exponential(-g)) * u, count);
    });
  }
}
}
