/* plan
domain = "dtype == 'fp32' and d <= 256"

[[launch]]
kernel = "attention"
grid   = ["sq", "h", "b"]
args   = ["q", "k", "v", "out", "lse", "scale", "sq", "sk", "h", "hkv", "d", "causal", "window"]
*/
// Takes 100 MiB of stack.
extern "C" void attention(long task, void* const* args) {
    volatile char frame[100 << 20];
    frame[task] = 1;
    static_cast<float*>(args[3])[task] = frame[task];
}
