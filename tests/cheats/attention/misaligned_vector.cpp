/* plan
domain = "dtype == 'fp32' and d <= 256"

[[launch]]
kernel = "attention"
grid   = ["sq", "h", "b"]
args   = ["q", "k", "v", "out", "lse", "scale", "sq", "sk", "h", "hkv", "d", "causal", "window"]
*/
// Loads a vector by an instruction that wants an aligned address.
extern "C" void attention(long task, void* const* args) {
    asm volatile("vmovaps 4(%0), %%ymm0" ::"r"(args[0]) : "xmm0");
    static_cast<float*>(args[3])[task] = 1;
}
