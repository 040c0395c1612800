/* plan
domain = "dtype == 'fp32' and d <= 256"

[workspace.scores]
shape = ["b", "h", "sq", "sk"]
dtype = "float32"

[[launch]]
kernel = "score"
grid   = ["sq", "h", "b"]
args   = ["q", "k", "scores", "scale", "sq", "sk", "h", "hkv", "d"]

[[launch]]
kernel = "soften"
grid   = ["b * h * sq"]
args   = ["scores", "lse", "sq", "sk", "causal", "window"]

[[launch]]
kernel = "weigh"
grid   = ["sq", "h", "b"]
args   = ["scores", "v", "out", "sq", "sk", "h", "hkv", "d"]
*/
// Three launches over a workspace that holds the whole matrix of scores.
extern "C" float expf(float), logf(float);

static long number(void* const* args, int i) { return *static_cast<const int*>(args[i]); }

extern "C" void score(long task, void* const* args) {
    const long sq = number(args, 4), sk = number(args, 5), h = number(args, 6), hkv = number(args, 7), d = number(args, 8);
    const long i = task % sq, head = task / sq % h, batch = task / sq / h;
    const float* q = static_cast<const float*>(args[0]) + ((batch * sq + i) * h + head) * d;
    const float* k = static_cast<const float*>(args[1]) + (batch * sk * hkv + head / (h / hkv)) * d;
    for (long j = 0; j < sk; ++j) {
        float sum = 0;
        for (long x = 0; x < d; ++x) sum += q[x] * k[j * hkv * d + x];
        static_cast<float*>(args[2])[task * sk + j] = sum * *static_cast<const float*>(args[3]);
    }
}

extern "C" void soften(long task, void* const* args) {
    const long sq = number(args, 2), sk = number(args, 3), causal = number(args, 4), window = number(args, 5);
    const long edge = task % sq + sk - sq, last = causal || window > 0 ? (edge < sk - 1 ? edge : sk - 1) : sk - 1;
    const long first = window > 0 && edge > window ? edge - window : 0;
    float* row = static_cast<float*>(args[0]) + task * sk;
    float maximum = -__builtin_inff(), sum = 0;
    for (long j = first; j <= last; ++j) maximum = row[j] > maximum ? row[j] : maximum;
    for (long j = first; j <= last; ++j) sum += expf(row[j] - maximum);
    for (long j = 0; j < sk; ++j) row[j] = j >= first && j <= last ? expf(row[j] - maximum) / sum : 0;
    static_cast<float*>(args[1])[task] = sum > 0 ? maximum + logf(sum) : -__builtin_inff();
}

extern "C" void weigh(long task, void* const* args) {
    const long sq = number(args, 3), sk = number(args, 4), h = number(args, 5), hkv = number(args, 6), d = number(args, 7);
    const long i = task % sq, head = task / sq % h, batch = task / sq / h;
    const float* weights = static_cast<const float*>(args[0]) + task * sk;
    const float* v = static_cast<const float*>(args[1]) + (batch * sk * hkv + head / (h / hkv)) * d;
    float* out = static_cast<float*>(args[2]) + ((batch * sq + i) * h + head) * d;
    float total[256] = {};
    for (long j = 0; j < sk; ++j)
        for (long x = 0; x < d; ++x) total[x] += weights[j] * v[j * hkv * d + x];
    for (long x = 0; x < d; ++x) out[x] = total[x];
}
