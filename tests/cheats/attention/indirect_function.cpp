/* plan
domain = "dtype == 'fp32' and d <= 256"

[[launch]]
kernel = "attention"
grid   = ["sq", "h", "b"]
args   = ["q", "k", "v", "out", "lse", "scale", "sq", "sk", "h", "hkv", "d", "causal", "window"]
*/
// Lets the loader call a resolver (IFUNC) before the process is sealed.
extern "C" void attention(long task, void* const* args) __attribute__((ifunc("choose")));
extern "C" void right(long, void* const*) {}
extern "C" void (*choose())(long, void* const*) { return right; }
