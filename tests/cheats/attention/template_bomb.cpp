/* plan
domain = "dtype == 'fp32' and d <= 256"

[[launch]]
kernel = "attention"
grid   = ["sq", "h", "b"]
args   = ["q", "k", "v", "out", "lse", "scale", "sq", "sk", "h", "hkv", "d", "causal", "window"]
*/
// Instantiates templates without end.
template <int N, unsigned long M = 1> struct Bomb {
    static constexpr unsigned long value = Bomb<N - 1, 2 * M>::value + Bomb<N - 1, 2 * M + 1>::value;
};
template <unsigned long M> struct Bomb<0, M> { static constexpr unsigned long value = M; };
extern "C" void attention(long task, void* const* args) {
    static_cast<float*>(args[3])[task] = Bomb<60>::value;
}
