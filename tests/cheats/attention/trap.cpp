/* plan
domain = "dtype == 'fp32' and d <= 256"

[[launch]]
kernel = "attention"
grid   = ["sq", "h", "b"]
args   = ["q", "k", "v", "out", "lse", "scale", "sq", "sk", "h", "hkv", "d", "causal", "window"]
*/
// Ends on an instruction that doesn't exist.
extern "C" void attention(long task, void* const* args) {
    if (task == 3) __builtin_trap();
    static_cast<float*>(args[3])[task] = 1;
}
