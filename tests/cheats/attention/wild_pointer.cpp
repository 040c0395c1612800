/* plan
domain = "dtype == 'fp32' and d <= 256"

[[launch]]
kernel = "attention"
grid   = ["sq", "h", "b"]
args   = ["q", "k", "v", "out", "lse", "scale", "sq", "sk", "h", "hkv", "d", "causal", "window"]
*/
// Reads and writes at an address of its own making.
extern "C" void attention(long task, void* const* args) {
    *reinterpret_cast<volatile float*>(0x123456789000 + task) = 1;
}
