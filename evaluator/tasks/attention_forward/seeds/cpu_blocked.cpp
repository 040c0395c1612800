/* plan
domain = "dtype == 'fp32' and d % 16 == 0 and d <= 256"

[knobs]
BLOCK_M   = { value = 16, choices = [8, 16, 32, 48, 64, 96, 128] }  # query rows of one task
BLOCK_N   = { value = 32, choices = [32, 64, 96, 128, 192, 256] }   # keys of one score tile
ROWS      = { value = 2,  choices = [1, 2, 4, 8] }                  # rows of the register tile
VECTORS   = { value = 1,  choices = [1, 2, 4] }                     # vectors across the register tile
WIDTH     = { value = 8,  choices = [4, 8, 16] }                    # floats in a vector
ROWS_OUTER = { value = 1, choices = [0, 1] }                        # order of the register tiles inside a score tile

[constants]
HEAD_DIM = "d"

[[launch]]
kernel = "attention_forward"
grid   = ["ceil_div(sq, BLOCK_M)", "h", "b"]
args   = ["q", "k", "v", "out", "lse", "scale", "sq", "sk", "h", "hkv", "causal", "window"]
*/

// Attention forward by tiles, after FlashAttention (Dao et al., 2022): a task takes BLOCK_M query rows of one head and walks
// over tiles of BLOCK_N keys. Keys are packed transposed, so that both products run over unit-stride vectors, and both use
// one register tile of ROWS x VECTORS vectors. The exponential is a polynomial on vectors. Everything is float32.

extern "C" float logf(float);

namespace {

typedef float vec __attribute__((vector_size(WIDTH * 4), aligned(4), may_alias));
typedef int ivec __attribute__((vector_size(WIDTH * 4), aligned(4), may_alias));

constexpr float minus_infinity = -__builtin_inff();
constexpr float log2_e = 1.44269504088896341f, ln_2 = 0.693147180559945309f;

static_assert(BLOCK_M % ROWS == 0, "BLOCK_M must be a multiple of ROWS");
static_assert(BLOCK_N % WIDTH == 0 && HEAD_DIM % WIDTH == 0, "BLOCK_N and d must be multiples of WIDTH");

// A register tile may not be wider than what it covers; gcd keeps it an exact divisor.
constexpr int gcd(int a, int b) { return b == 0 ? a : gcd(b, a % b); }
constexpr int key_vectors = gcd(BLOCK_N / WIDTH, VECTORS);
constexpr int dim_vectors = gcd(HEAD_DIM / WIDTH, VECTORS);

struct Problem {
    const float* q;
    const float* k;
    const float* v;
    float* out;
    float* lse;
    float scale;
    long sq, sk, h, hkv, causal, window;
};

struct Tile {
    alignas(64) float query[BLOCK_M][HEAD_DIM];
    alignas(64) float keys[HEAD_DIM][BLOCK_N];  // transposed
    alignas(64) float score[BLOCK_M][BLOCK_N];
    alignas(64) float out[BLOCK_M][HEAD_DIM];
    float maximum[BLOCK_M], sum[BLOCK_M];
};

long least(long a, long b) { return a < b ? a : b; }
long most(long a, long b) { return a > b ? a : b; }

// Query i sees keys first..last-1; the diagonal is aligned bottom-right.
long first_key(const Problem& p, long i) { return p.window > 0 ? most(0, i + p.sk - p.sq - p.window) : 0; }
long last_key(const Problem& p, long i) {
    return (p.causal || p.window > 0) ? most(0, least(p.sk, i + p.sk - p.sq + 1)) : p.sk;
}

// 2^x for x <= 0: nearest integer by the rounding of a large addend, then the Taylor series of 2^f on |f| <= 1/2 up to f^7
// (relative error below 1e-8 before rounding). Zero below 2^-126, and where x is not a number.
inline vec exp2(vec x) {
    const ivec alive = x > -126.0f;
    const vec bounded = alive ? x : vec{} - 126.0f;
    const vec shifted = bounded + 12582912.0f;
    const vec f = bounded - (shifted - 12582912.0f);
    vec y = vec{} + 1.52527338e-5f;
    y = y * f + 1.54035304e-4f;
    y = y * f + 1.33335581e-3f;
    y = y * f + 9.61812911e-3f;
    y = y * f + 5.55041087e-2f;
    y = y * f + 2.40226507e-1f;
    y = y * f + 6.93147181e-1f;
    y = y * f + 1.0f;
    const ivec scaled = (ivec)y + ((ivec)shifted << 23);
    return (vec)(scaled & alive);
}

// c[ROWS][N vectors] (+)= a[ROWS][depth] * b[depth][N vectors]
template <int N, bool Add>
inline void multiply(const float* a, long a_stride, const float* b, long b_stride, float* c, long c_stride, long depth) {
    vec sum[ROWS][N];
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 16
        for (int n = 0; n < N; ++n) sum[r][n] = Add ? *(const vec*)(c + r * c_stride + n * WIDTH) : vec{};
    for (long x = 0; x < depth; ++x) {
        vec column[N];
#pragma GCC unroll 16
        for (int n = 0; n < N; ++n) column[n] = *(const vec*)(b + x * b_stride + n * WIDTH);
#pragma GCC unroll 16
        for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 16
            for (int n = 0; n < N; ++n) sum[r][n] += a[r * a_stride + x] * column[n];
    }
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 16
        for (int n = 0; n < N; ++n) *(vec*)(c + r * c_stride + n * WIDTH) = sum[r][n];
}

void pack_keys(Tile& t, const float* k, long stride, long count) {
    for (long n = 0; n < count; ++n)
        for (int d = 0; d < HEAD_DIM; ++d) t.keys[d][n] = k[n * stride + d];
    for (long n = count; n < BLOCK_N; ++n)
        for (int d = 0; d < HEAD_DIM; ++d) t.keys[d][n] = 0.0f;
}

void multiply_keys(Tile& t) {
    constexpr int step = key_vectors * WIDTH;
#if ROWS_OUTER
    for (int m = 0; m < BLOCK_M; m += ROWS)
        for (int n = 0; n < BLOCK_N; n += step)
#else
    for (int n = 0; n < BLOCK_N; n += step)
        for (int m = 0; m < BLOCK_M; m += ROWS)
#endif
            multiply<key_vectors, false>(t.query[m], HEAD_DIM, &t.keys[0][n], BLOCK_N, &t.score[m][n], BLOCK_N, HEAD_DIM);
}

void multiply_values(Tile& t, const float* v, long stride, long count) {
    constexpr int step = dim_vectors * WIDTH;
#if ROWS_OUTER
    for (int m = 0; m < BLOCK_M; m += ROWS)
        for (int d = 0; d < HEAD_DIM; d += step)
#else
    for (int d = 0; d < HEAD_DIM; d += step)
        for (int m = 0; m < BLOCK_M; m += ROWS)
#endif
            multiply<dim_vectors, true>(t.score[m], BLOCK_N, v + d, stride, &t.out[m][d], HEAD_DIM, count);
}

// Turns one row of scores into weights and brings the row's running state to the new maximum.
void soften(Tile& t, int m, float scale, long from, long to) {
    float* score = t.score[m];
    for (long n = 0; n < from; ++n) score[n] = minus_infinity;
    for (long n = to; n < BLOCK_N; ++n) score[n] = minus_infinity;
    vec top = vec{} + minus_infinity;
    for (int n = 0; n < BLOCK_N; n += WIDTH) {
        const vec s = *(const vec*)(score + n) * scale;
        *(vec*)(score + n) = s;
        top = s > top ? s : top;
    }
    float maximum = t.maximum[m];
    for (int lane = 0; lane < WIDTH; ++lane) maximum = top[lane] > maximum ? top[lane] : maximum;
    vec total = {};
    for (int n = 0; n < BLOCK_N; n += WIDTH) {
        const vec weight = exp2((*(const vec*)(score + n) - maximum) * log2_e);
        *(vec*)(score + n) = weight;
        total += weight;
    }
    float sum = 0.0f;
    for (int lane = 0; lane < WIDTH; ++lane) sum += total[lane];
    const float keep = exp2(vec{} + (t.maximum[m] - maximum) * log2_e)[0];
    t.maximum[m] = maximum;
    t.sum[m] = t.sum[m] * keep + sum;
    for (int d = 0; d < HEAD_DIM; d += WIDTH) *(vec*)&t.out[m][d] *= keep;
}

void store(const Tile& t, long rows, float* out, long stride, float* lse) {
    for (long m = 0; m < rows; ++m) {
        const float inverse = t.sum[m] > 0.0f ? 1.0f / t.sum[m] : 0.0f;
        for (int d = 0; d < HEAD_DIM; ++d) out[m * stride + d] = t.out[m][d] * inverse;
        lse[m] = t.sum[m] > 0.0f ? t.maximum[m] + logf(t.sum[m]) : minus_infinity;
    }
}

void start(Tile& t, const float* q, long stride, long rows) {
    for (long m = 0; m < BLOCK_M; ++m) {
        t.maximum[m] = minus_infinity;
        t.sum[m] = 0.0f;
        for (int d = 0; d < HEAD_DIM; ++d) {
            t.out[m][d] = 0.0f;
            t.query[m][d] = m < rows ? q[m * stride + d] : 0.0f;
        }
    }
}

}  // namespace

extern "C" void attention_forward(long task, void* const* args) {
    const Problem p = {
        static_cast<const float*>(args[0]), static_cast<const float*>(args[1]), static_cast<const float*>(args[2]),
        static_cast<float*>(args[3]),       static_cast<float*>(args[4]),       *static_cast<const float*>(args[5]),
        *static_cast<const int*>(args[6]),  *static_cast<const int*>(args[7]),  *static_cast<const int*>(args[8]),
        *static_cast<const int*>(args[9]),  *static_cast<const int*>(args[10]), *static_cast<const int*>(args[11]),
    };
    const long blocks = (p.sq + BLOCK_M - 1) / BLOCK_M;
    const long head = task / blocks % p.h, batch = task / blocks / p.h;
    const long begin = task % blocks * BLOCK_M, rows = least(p.sq - begin, BLOCK_M);
    const long q_stride = p.h * HEAD_DIM, kv_stride = p.hkv * HEAD_DIM;
    const long q_offset = (batch * p.sq + begin) * q_stride + head * HEAD_DIM;
    const long kv_offset = batch * p.sk * kv_stride + head / (p.h / p.hkv) * HEAD_DIM;

    Tile t;
    start(t, p.q + q_offset, q_stride, rows);
    const long first = first_key(p, begin), last = last_key(p, begin + rows - 1);
    for (long tile = first / BLOCK_N * BLOCK_N; tile < last; tile += BLOCK_N) {
        const long count = least(BLOCK_N, p.sk - tile);
        pack_keys(t, p.k + kv_offset + tile * kv_stride, kv_stride, count);
        multiply_keys(t);
        for (int m = 0; m < BLOCK_M; ++m) {
            const long from = most(0, least(BLOCK_N, first_key(p, begin + m) - tile));
            const long to = most(from, least(BLOCK_N, last_key(p, begin + m) - tile));
            soften(t, m, p.scale, from, to);
        }
        multiply_values(t, p.v + kv_offset + tile * kv_stride, kv_stride, count);
    }
    store(t, rows, p.out + q_offset, q_stride, p.lse + (batch * p.h + head) * p.sq + begin);
}
