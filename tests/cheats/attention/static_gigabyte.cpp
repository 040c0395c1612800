/* plan
domain = "dtype == 'fp32' and d <= 256"

[[launch]]
kernel = "attention"
grid   = ["sq", "h", "b"]
args   = ["q", "k", "v", "out", "lse", "scale", "sq", "sk", "h", "hkv", "d", "causal", "window"]
*/
// Keeps 1 GB of static memory.
static float table[1 << 28];
extern "C" void attention(long task, void* const* args) {
    table[task % (1 << 28)] = 1;
    static_cast<float*>(args[3])[task] = table[task];
}
