/* plan
domain = "dtype == 'fp32' and d <= 256"

[workspace.flag]
shape = ["1"]
dtype = "int32"

[[launch]]
kernel = "attention"
grid   = ["sq", "h", "b"]
args   = ["q", "k", "v", "out", "lse", "scale", "sq", "sk", "h", "hkv", "d", "causal", "window", "flag"]
*/
// Waits for a flag that no other task sets.
extern "C" void attention(long task, void* const* args) {
    while (__atomic_load_n(static_cast<const int*>(args[13]), __ATOMIC_ACQUIRE) != -1) {}
}
