/* plan
domain = "dtype == 'fp32' and d <= 256"

[[launch]]
kernel = "attention"
grid   = ["sq", "h", "b"]
args   = ["q", "k", "v", "out", "lse", "scale", "sq", "sk", "h", "hkv", "d", "causal", "window"]
*/
// Uses a name that nothing declares.
extern "C" void attention(long task, void* const* args) {
    static_cast<float*>(args[3])[task] = undeclared;
}
