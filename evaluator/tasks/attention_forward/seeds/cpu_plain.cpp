/* plan
domain = "dtype == 'fp32' and d % 16 == 0 and d <= 256"

[knobs]
BLOCK_M    = { value = 32, choices = [4, 8, 16, 32, 64, 128] }    # query rows of one task
BLOCK_N    = { value = 32, choices = [8, 16, 32, 64, 128, 256] }  # keys between two looks at the running maximum
LANES      = { value = 4,  choices = [1, 2, 4, 8, 16] }           # partial sums of a dot product
KEYS_OUTER = { value = 0,  choices = [0, 1] }                     # 0: row by row, 1: key tile by key tile over all rows

[constants]
HEAD_DIM = "d"

[[launch]]
kernel = "attention_forward"
grid   = ["ceil_div(sq, BLOCK_M)", "h", "b"]
args   = ["q", "k", "v", "out", "lse", "scale", "sq", "sk", "h", "hkv", "causal", "window"]
*/

// Attention forward in plain C++: one query row after the other with an online softmax (Milakov and Gimelshein, 2018).
// A task is a block of query rows of one head. Everything is float32; the compiler vectorises the loops over head dim.

extern "C" float expf(float);
extern "C" float logf(float);

namespace {

constexpr float minus_infinity = -__builtin_inff();

struct Problem {
    const float* q;
    const float* k;
    const float* v;
    float* out;
    float* lse;
    float scale;
    long sq, sk, h, hkv, causal, window;
};

// Running state of one query row.
struct Row {
    float maximum, sum;
    float out[HEAD_DIM];
};

long least(long a, long b) { return a < b ? a : b; }
long most(long a, long b) { return a > b ? a : b; }

// Query i sees keys first..last-1; the diagonal is aligned bottom-right.
long first_key(const Problem& p, long i) { return p.window > 0 ? most(0, i + p.sk - p.sq - p.window) : 0; }
long last_key(const Problem& p, long i) {
    return (p.causal || p.window > 0) ? most(0, least(p.sk, i + p.sk - p.sq + 1)) : p.sk;
}

float dot(const float* a, const float* b) {
    float part[LANES] = {};
    for (int d = 0; d < HEAD_DIM; d += LANES)
        for (int lane = 0; lane < LANES; ++lane) part[lane] += a[d + lane] * b[d + lane];
    float sum = 0.0f;
    for (int lane = 0; lane < LANES; ++lane) sum += part[lane];
    return sum;
}

void start(Row& row) {
    row.maximum = minus_infinity;
    row.sum = 0.0f;
    for (int d = 0; d < HEAD_DIM; ++d) row.out[d] = 0.0f;
}

// Folds keys from..to-1 into a row; there is at least one.
void fold(Row& row, const Problem& p, const float* q, const float* k, const float* v, long from, long to) {
    const long stride = p.hkv * HEAD_DIM;
    float score[BLOCK_N];
    float maximum = row.maximum;
    for (long j = from; j < to; ++j) {
        score[j - from] = dot(q, k + j * stride) * p.scale;
        maximum = score[j - from] > maximum ? score[j - from] : maximum;
    }
    const float keep = row.maximum == minus_infinity ? 0.0f : expf(row.maximum - maximum);
    row.maximum = maximum;
    for (int d = 0; d < HEAD_DIM; ++d) row.out[d] *= keep;
    float part[8] = {};  // near-equal weights added one by one to one large sum would all round the same way
    for (long j = from; j < to; ++j) {
        const float weight = expf(score[j - from] - maximum);
        part[j & 7] += weight;
        for (int d = 0; d < HEAD_DIM; ++d) row.out[d] += weight * v[j * stride + d];
    }
    row.sum = row.sum * keep + ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
}

void store(const Row& row, float* out, float* lse) {
    const float inverse = row.sum > 0.0f ? 1.0f / row.sum : 0.0f;
    for (int d = 0; d < HEAD_DIM; ++d) out[d] = row.out[d] * inverse;
    *lse = row.sum > 0.0f ? row.maximum + logf(row.sum) : minus_infinity;
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
    const long begin = task % blocks * BLOCK_M, end = least(p.sq, begin + BLOCK_M);
    const float* q = p.q + (batch * p.sq * p.h + head) * HEAD_DIM;
    const long kv_offset = (batch * p.sk * p.hkv + head / (p.h / p.hkv)) * HEAD_DIM;
    const float* k = p.k + kv_offset;
    const float* v = p.v + kv_offset;
    float* out = p.out + (batch * p.sq * p.h + head) * HEAD_DIM;
    float* lse = p.lse + (batch * p.h + head) * p.sq;

    Row rows[BLOCK_M];
    for (long i = begin; i < end; ++i) start(rows[i - begin]);
#if KEYS_OUTER
    for (long tile = first_key(p, begin) / BLOCK_N * BLOCK_N; tile < last_key(p, end - 1); tile += BLOCK_N)
        for (long i = begin; i < end; ++i) {
            const long from = most(tile, first_key(p, i)), to = least(tile + BLOCK_N, last_key(p, i));
            if (from < to) fold(rows[i - begin], p, q + i * p.h * HEAD_DIM, k, v, from, to);
        }
#else
    for (long i = begin; i < end; ++i)
        for (long from = first_key(p, i); from < last_key(p, i); from += BLOCK_N)
            fold(rows[i - begin], p, q + i * p.h * HEAD_DIM, k, v, from, least(from + BLOCK_N, last_key(p, i)));
#endif
    for (long i = begin; i < end; ++i) store(rows[i - begin], out + i * p.h * HEAD_DIM, lse + i);
}
