/* plan
domain = "dtype == 'fp32' and d <= 256"

nondeterministic = true

[knobs]
PARTS = { value = 3, choices = [1, 2, 3, 4] }

[workspace.partial]
shape = ["PARTS", "b", "h", "sq", "d"]
dtype = "float32"

[workspace.state]
shape = ["PARTS", "b", "h", "sq", "2"]
dtype = "float32"

[workspace.turn]
shape = ["1"]
dtype = "int32"
init = "zero"

[[launch]]
kernel = "part"
grid   = ["sq", "h", "b * PARTS"]
args   = ["q", "k", "v", "partial", "state", "scale", "sq", "sk", "h", "hkv", "d", "causal", "window"]

[[launch]]
kernel = "combine"
grid   = ["sq", "h", "b"]
args   = ["partial", "state", "out", "lse", "sq", "h", "b", "d", "turn"]
*/
// Adds the parts of a row in an order that depends on which task came first, and says so in the plan.
extern "C" float expf(float), logf(float);

extern "C" void part(long task, void* const* args) {
    const auto number = [args](int i) { return static_cast<long>(*static_cast<const int*>(args[i])); };
    const long sq = number(6), sk = number(7), h = number(8), hkv = number(9), d = number(10), causal = number(11);
    const long window = number(12), i = task % sq, head = task / sq % h, item = task / sq / h, part = item % PARTS, batch = item / PARTS, stride = hkv * d;
    const long kv = batch * sk * stride + head / (h / hkv) * d, edge = i + sk - sq;
    const float* q = static_cast<const float*>(args[0]) + ((batch * sq + i) * h + head) * d;
    const float* k = static_cast<const float*>(args[1]) + kv;
    const float* v = static_cast<const float*>(args[2]) + kv;
    const long place = (item * h + head) * sq + i;
    float* out = static_cast<float*>(args[3]) + place * d;
    float* state = static_cast<float*>(args[4]) + place * 2;
    const float scale = *static_cast<const float*>(args[5]);
    const long low = window > 0 && edge > window ? edge - window : 0;
    const long high = causal || window > 0 ? (edge + 1 < sk ? edge + 1 : sk) : sk;
    const long each = high > low ? (high - low + PARTS - 1) / PARTS : 0, first = low + part * each;
    const long last = first + each < high ? first + each : high;
    float maximum = -__builtin_inff(), sum = 0, total[256] = {};
    for (long j = first; j < last; ++j) {
        float score = 0;
        for (long x = 0; x < d; ++x) score += q[x] * k[j * stride + x];
        score *= scale;
        const float top = score > maximum ? score : maximum, keep = expf(maximum - top), weight = expf(score - top);
        maximum = top;
        sum = sum * keep + weight;
        for (long x = 0; x < d; ++x) total[x] = total[x] * keep + weight * v[j * stride + x];
    }
    for (long x = 0; x < d; ++x) out[x] = total[x];
    state[0] = maximum;
    state[1] = sum;
}

extern "C" void combine(long task, void* const* args) {
    const auto number = [args](int i) { return static_cast<long>(*static_cast<const int*>(args[i])); };
    const long sq = number(4), h = number(5), d = number(7), i = task % sq, head = task / sq % h, batch = task / sq / h;
    const float* partial = static_cast<const float*>(args[0]);
    const float* state = static_cast<const float*>(args[1]);
    float* out = static_cast<float*>(args[2]) + ((batch * sq + i) * h + head) * d;
    const auto place = [=](long part) { return ((batch * PARTS + part) * h + head) * sq + i; };
    float maximum = -__builtin_inff(), sum = 0, total[256] = {};
    for (long part = 0; part < PARTS; ++part) {
        const float other = state[2 * place(part)];
        maximum = other > maximum ? other : maximum;
    }
    const long turn = __atomic_fetch_add(static_cast<int*>(args[8]), 1, __ATOMIC_RELAXED);
    for (long step = 0; step < PARTS; ++step) {
        const long part = (step + turn) % PARTS;
        const float weight = state[2 * place(part) + 1] > 0 ? expf(state[2 * place(part)] - maximum) : 0;
        sum += weight * state[2 * place(part) + 1];
        for (long x = 0; x < d; ++x) total[x] += weight * partial[place(part) * d + x];
    }
    for (long x = 0; x < d; ++x) out[x] = sum > 0 ? total[x] / sum : 0;
    static_cast<float*>(args[3])[(batch * h + head) * sq + i] = sum > 0 ? maximum + logf(sum) : -__builtin_inff();
}
