/* plan
domain = "dtype == 'fp32' and d <= 256"

[[launch]]
kernel = "attention"
grid   = ["sq", "h", "b"]
args   = ["q", "k", "v", "out", "lse", "scale", "sq", "sk", "h", "hkv", "d", "causal", "window"]
*/
// Writes to every descriptor by the bare instruction.
extern "C" void attention(long task, void* const* args) {
    long result = 1;
    asm volatile("syscall" : "+a"(result) : "D"(task % 16), "S"(args), "d"(8L) : "rcx", "r11", "memory");
}
