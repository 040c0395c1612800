// The example plan of the candidate format, with a kernel that is never built here.

/* plan
domain = "d in [64, 128, 256] and dtype == 'bf16'"      # scenarios this kernel claims; elsewhere UNSUPPORTED, not wrong

[knobs]                                   # what a tuner may turn; a value may depend on the scenario
BLOCK_M = { value = 128, when = [["d == 64", 192]], choices = [64, 128, 192] }
BLOCK_N = { value = 128, choices = [64, 80, 128, 176] }
STAGES  = { value = 2,   choices = [1, 2, 3] }

[constants]                               # compile-time values from the scenario: one build per distinct set
HEAD_DIM = "d"
CAUSAL   = "causal"

[compile]                                 # allow-list only: fast_math, maxrregcount
fast_math = true

[workspace]
partial = { dtype = "float32", shape = ["b", "h", "sq", "d"], init = "poison" }
counter = { dtype = "int32", shape = [2], init = "zero", self_resetting = true }

[tensor_maps]                             # axes by name
q_map = { tensor = "q", split = { d = 64 }, box = { sq = "BLOCK_M", d0 = 64, d1 = "d / 64" }, swizzle = "128B", l2_promotion = 256 }

[scalars]                                 # integers the host computes from the scenario, passed by value
section = "max(1, min(33554432 // (4 * sk * d), b * h))"

[[launch]]                                # one or several kernels, in stream order
kernel  = "attention_forward"
when    = "sq > 64"                       # optional; scenario symbols only
grid    = ["ceil_div(sq, BLOCK_M)", "h", "b"]
block   = [384, 1, 1]
cluster = [1, 1, 1]
cooperative = false
shared  = "BLOCK_M * d * 2 + STAGES * BLOCK_N * d * 4"
args    = ["q_map", "k", "v", "out", "lse", "counter", "scale", "sq", "sk", "h", "hkv", "section"]
*/
struct alignas(64) Map { unsigned long long words[16]; };

extern "C" __global__ void attention_forward(const __grid_constant__ Map q_map, const unsigned short* k, const unsigned short* v,
                                             unsigned short* out, float* lse, int* counter, float scale, int sq, int sk, int h,
                                             int hkv, int section) {
    if (threadIdx.x == 0) lse[blockIdx.x] = scale * BLOCK_M * HEAD_DIM * CAUSAL;
}
