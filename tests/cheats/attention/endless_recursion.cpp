/* plan
domain = "dtype == 'fp32' and d <= 256"

[[launch]]
kernel = "attention"
grid   = ["sq", "h", "b"]
args   = ["q", "k", "v", "out", "lse", "scale", "sq", "sk", "h", "hkv", "d", "causal", "window"]
*/
// Calls itself without end.
__attribute__((noinline, optimize("O0"))) static int deeper(int depth) {
    volatile char frame[512];
    frame[0] = depth;
    return deeper(depth + 1) + frame[0];
}
extern "C" void attention(long task, void* const* args) {
    static_cast<float*>(args[3])[task] = deeper(0);
}
