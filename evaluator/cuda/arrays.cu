// What the harness does with arrays on the device, one pass over memory each: move contents, judge outputs, weigh scores.
// Launched by evaluator/cuda/kernels.py. bf16 and fp16 are carried as their bits.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;

struct Bf16 {
  typedef u16 stored;
  static __device__ float value(u16 bits) { return __uint_as_float((u32)bits << 16); }
  static __device__ u16 nearest(float value) {
    const u32 bits = __float_as_uint(value);
    return value != value ? 0x7FC0 : (u16)((bits + ((bits >> 16) & 1) + 0x7FFF) >> 16);
  }
};

struct Fp16 {
  typedef u16 stored;
  static __device__ float value(u16 bits) {
    const u32 sign = (u32)(bits & 0x8000) << 16, rest = bits & 0x7FFF;
    if (rest >= 0x7C00) return __uint_as_float(sign | 0x7F800000 | (rest & 0x3FF) << 13);
    const float size = rest < 0x400 ? (float)rest * 0x1p-24f : __uint_as_float((rest << 13) + 0x38000000);  // CuPy flushes subnormals
    return __uint_as_float(sign | __float_as_uint(size));
  }
  static __device__ u16 nearest(float value) {
    const u32 all = __float_as_uint(value), size = all & 0x7FFFFFFF;
    const u16 sign = (u16)(all >> 16 & 0x8000);
    if (size > 0x7F800000) return sign | 0x7E00;
    if (size >= 0x47800000) return sign | 0x7C00;
    // below 2^-14 the unit is 2^-24, which is also that of float32 between 0.5 and 1: the sum rounds as it should
    if (size < 0x38800000) return sign | (u16)(__float_as_uint(__uint_as_float(size) + 0.5f) - 0x3F000000);
    return sign | (u16)((size + 0xFFF + (size >> 13 & 1) - 0x38000000) >> 13);
  }
};

struct Fp32 {
  typedef float stored;
  static __device__ float value(float value) { return value; }
  static __device__ float nearest(float value) { return value; }
};

template <class T, int N>
struct alignas(N * sizeof(T)) Group {
  T items[N];
};

// ---- move: to[i0, i1, i2, i3] = +-2^exponent from[t0[i0], t1[i1], t2[i2], i3]
//
// `terms` begins with the words below; tables are offsets into it (0: the identity), flips are bits over an array whose axes are
// `each` times shorter than those of the tensor.
enum { LAST, SIZE1, SIZE2, TABLE0, TABLE1, TABLE2, FLIPS, EACH0, EACH1, EACH2, EACH3, FLIPS1, FLIPS2, FLIPS3, FACTOR, TERMS };

static __device__ u16 turned(u16 bits, u32 flip) { return bits ^ (u16)(flip << 15); }
static __device__ float turned(float value, u32 flip) { return __uint_as_float(__float_as_uint(value) ^ flip << 31); }

template <class Type, int N>
static __device__ void move(const typename Type::stored* from, typename Type::stored* to, const u32* terms, u32 groups) {
  typedef Group<typename Type::stored, N> Items;
  const u32 last = terms[LAST] / N;
  const float factor = __uint_as_float(terms[FACTOR]);
  const u8* flips = reinterpret_cast<const u8*>(terms + terms[FLIPS]);
  for (u32 at = blockIdx.x * blockDim.x + threadIdx.x; at < groups; at += gridDim.x * blockDim.x) {
    const u32 i3 = at % last, row = at / last;
    const u32 i2 = row % terms[SIZE2], i1 = row / terms[SIZE2] % terms[SIZE1], i0 = row / terms[SIZE2] / terms[SIZE1];
    const u32 s0 = terms[TABLE0] ? terms[terms[TABLE0] + i0] : i0;
    const u32 s1 = terms[TABLE1] ? terms[terms[TABLE1] + i1] : i1;
    const u32 s2 = terms[TABLE2] ? terms[terms[TABLE2] + i2] : i2;
    Items items = reinterpret_cast<const Items*>(from)[((s0 * terms[SIZE1] + s1) * terms[SIZE2] + s2) * last + i3];
    if (factor != 1.0f)
      for (int n = 0; n < N; n++) items.items[n] = Type::nearest(Type::value(items.items[n]) * factor);
    if (terms[FLIPS]) {
      const u32 line = ((i0 / terms[EACH0] * terms[FLIPS1] + i1 / terms[EACH1]) * terms[FLIPS2] + i2 / terms[EACH2]) * terms[FLIPS3];
      for (int n = 0; n < N; n++) {
        const u32 bit = line + (i3 * N + n) / terms[EACH3];
        items.items[n] = turned(items.items[n], flips[bit >> 3] >> (bit & 7) & 1);
      }
    }
    reinterpret_cast<Items*>(to)[at] = items;
  }
}

#define MOVE(name, Type, N)                                                                                              \
  extern "C" __global__ void move_##name##_##N(const Type::stored* from, Type::stored* to, const u32* terms, u32 groups) { \
    move<Type, N>(from, to, terms, groups);                                                                              \
  }
MOVE(bf16, Bf16, 8)
MOVE(bf16, Bf16, 1)
MOVE(fp16, Fp16, 8)
MOVE(fp16, Fp16, 1)
MOVE(fp32, Fp32, 4)
MOVE(fp32, Fp32, 1)

// ---- judge: what the errors |got - expected| of one output amount to
//
// An element is misplaced where NaN or an infinity stands in one tensor only, or where they differ. Each block writes one line.
enum { SHARE, AT, ERROR, ALLOWED, GOT, WANT, SQUARES, OVER, MISPLACED, FINITE, COLUMNS };
const u32 THREADS = 256, AHEAD = 4;

// Blocks hold at most THREADS threads, a power of two of them.
struct Worst {
  double share, at, error, allowed, got, want;
};
static __device__ void worse(Worst& one, const Worst& other) {
  if (other.share > one.share || (other.share == one.share && other.at < one.at)) one = other;
}
static __device__ bool is_finite(double value) { return value - value == 0.0; }

template <class Type, class Wanted>
static __device__ void judge(const typename Type::stored* got, const Wanted* expected, const double* row_allowed, u32 count,
                             u32 columns, double* lines) {
  Worst worst = {-1.0, 0.0, 0.0, 0.0, 0.0, 0.0};
  double sums[4] = {0.0, 0.0, 0.0, 0.0};  // SQUARES to FINITE
  const u32 step = gridDim.x * blockDim.x;
  for (u32 first = blockIdx.x * blockDim.x + threadIdx.x; first < count; first += AHEAD * step) {
    typename Type::stored stored[AHEAD];
    Wanted wanted[AHEAD];
#pragma unroll
    for (u32 n = 0; n < AHEAD; n++)
      if (first + n * step < count) {
        stored[n] = got[first + n * step];
        wanted[n] = expected[first + n * step];
      }
#pragma unroll
    for (u32 n = 0; n < AHEAD; n++) {
      const u32 at = first + n * step;
      if (at >= count) continue;
      const double value = Type::value(stored[n]), want = wanted[n];
      if (!is_finite(want)) {
        sums[2] += value == want || (value != value && want != want) ? 0.0 : 1.0;
        continue;
      }
      const double error = fabs(value - want), allowed = row_allowed[at / columns];
      sums[3] += 1.0;
      if (!is_finite(error)) {
        sums[2] += 1.0;
        continue;
      }
      sums[0] += error * error;
      sums[1] += error > allowed ? 1.0 : 0.0;
      if (error > worst.share * allowed) worse(worst, Worst{error / allowed, (double)at, error, allowed, value, want});
    }
  }
  __shared__ Worst all[THREADS];
  __shared__ double totals[4][THREADS];
  const u32 me = threadIdx.x;
  all[me] = worst;
  for (u32 n = 0; n < 4; n++) totals[n][me] = sums[n];
  for (u32 half = blockDim.x / 2; half; half /= 2) {
    __syncthreads();
    if (me < half) {
      worse(all[me], all[me + half]);
      for (u32 n = 0; n < 4; n++) totals[n][me] += totals[n][me + half];
    }
  }
  if (me == 0) {
    double* line = lines + blockIdx.x * COLUMNS;
    const Worst& most = all[0];
    line[SHARE] = most.share, line[AT] = most.at, line[ERROR] = most.error;
    line[ALLOWED] = most.allowed, line[GOT] = most.got, line[WANT] = most.want;
    for (u32 n = 0; n < 4; n++) line[SQUARES + n] = totals[n][0];
  }
}

#define JUDGE(name, Type, wide, Wanted)                                                                                       \
  extern "C" __global__ void judge_##name##_##wide(const Type::stored* got, const Wanted* expected, const double* row_allowed, \
                                                   u32 count, u32 columns, double* lines) {                                   \
    judge<Type, Wanted>(got, expected, row_allowed, count, columns, lines);                                                   \
  }
JUDGE(bf16, Bf16, 8, double)
JUDGE(bf16, Bf16, 4, float)
JUDGE(fp16, Fp16, 8, double)
JUDGE(fp16, Fp16, 4, float)
JUDGE(fp32, Fp32, 8, double)
JUDGE(fp32, Fp32, 4, float)

// ---- weigh: scores to unnormalised softmax weights in place, one block a row, with each row's peak and sum
//
// Row r of `rows` sees the keys first[r] to last[r]; what it doesn't see weighs nothing. Without any key peak and sum are 0.
static __device__ double reduced(double value, bool largest) {
  __shared__ double all[THREADS];
  const u32 me = threadIdx.x;
  __syncthreads();
  all[me] = value;
  for (u32 half = blockDim.x / 2; half; half /= 2) {
    __syncthreads();
    if (me < half) all[me] = largest ? fmax(all[me], all[me + half]) : all[me] + all[me + half];
  }
  __syncthreads();
  return all[0];
}

extern "C" __global__ void weigh(double* scores, double* peaks, double* sums, const int* first, const int* last, u32 rows, u32 keys) {
  double* row = scores + (unsigned long long)blockIdx.x * keys;
  const u32 low = first[blockIdx.x % rows], high = last[blockIdx.x % rows] + 1;
  double most = -__longlong_as_double(0x7FF0000000000000LL);
#pragma unroll 4
  for (u32 key = low + threadIdx.x; key < high; key += blockDim.x) most = fmax(most, row[key]);
  most = reduced(most, true);
  if (!is_finite(most)) most = 0.0;
  double sum = 0.0;
  for (u32 start = threadIdx.x; start < keys; start += AHEAD * blockDim.x) {
    double ahead[AHEAD];
#pragma unroll
    for (u32 n = 0; n < AHEAD; n++) {
      const u32 key = start + n * blockDim.x;
      if (key >= low && key < high) ahead[n] = row[key];
    }
#pragma unroll
    for (u32 n = 0; n < AHEAD; n++) {
      const u32 key = start + n * blockDim.x;
      if (key >= keys) continue;
      const double weight = key >= low && key < high ? exp(ahead[n] - most) : 0.0;
      row[key] = weight;
      sum += weight;
    }
  }
  sum = reduced(sum, false);
  if (threadIdx.x == 0) {
    peaks[blockIdx.x] = most;
    sums[blockIdx.x] = sum;
  }
}
