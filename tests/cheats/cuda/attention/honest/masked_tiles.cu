// Tiles of keys by head dimension, those that the mask hides are never visited; a persistent grid takes rows from a counter.
/* plan
[constants]
IS_BF16 = "dtype == 'bf16'"
HEAD_DIM = "d"

[knobs]
TILE = { value = 32, choices = [16, 32, 64], when = [["d == 64", 64]] }

[workspace]
counter = { dtype = "int32", shape = [2], init = "zero", self_resetting = true }

[scalars]
rows = "b * h * sq"
tiles = "ceil_div(sk, TILE)"

[[launch]]
kernel = "attention"
grid = ["min(b * h * sq, 2 * sm_count)"]
block = ["d"]
args = ["q", "k", "v", "out", "lse", "counter", "scale", "sq", "sk", "h", "hkv", "causal", "window", "rows", "tiles"]
*/
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#if IS_BF16
typedef __nv_bfloat16 Element;
#else
typedef __half Element;
#endif

__device__ __forceinline__ float minus_infinity() { return -__int_as_float(0x7f800000); }

extern "C" __global__ void attention(const Element* q, const Element* k, const Element* v, Element* out, float* lse, int* counter,
                                     float scale, int sq, int sk, int h, int hkv, int causal, int window, int rows, int tiles) {
    __shared__ float query[HEAD_DIM], weights[TILE];
    __shared__ int next;
    while (true) {
        if (threadIdx.x == 0) next = atomicAdd(counter, 1);
        __syncthreads();
        const int row = next;
        __syncthreads();
        if (row >= rows) break;
        const int i = row % sq, head = row / sq % h, batch = row / sq / h, group = head / (h / hkv), p = i + sk - sq;
        const int first = window ? max(0, p - window) : 0, last = causal || window ? min(p, sk - 1) : sk - 1;
        query[threadIdx.x] = float(q[((batch * sq + i) * h + head) * HEAD_DIM + threadIdx.x]);
        float largest = minus_infinity(), sum = 0.f, total = 0.f;
        for (int tile = first / TILE; tile < tiles && tile * TILE <= last; ++tile) {
            __syncthreads();
            for (int t = threadIdx.x; t < TILE; t += HEAD_DIM) {
                const int j = tile * TILE + t;
                float score = 0.f;
                for (int c = 0; c < HEAD_DIM && j <= last; ++c)
                    score += query[c] * float(k[((batch * sk + j) * hkv + group) * HEAD_DIM + c]);
                weights[t] = j < first || j > last ? minus_infinity() : score * scale;
            }
            __syncthreads();
            float top = largest;
            for (int t = 0; t < TILE; ++t) top = fmaxf(top, weights[t]);
            const float keep = expf(largest - top);
            sum *= keep, total *= keep, largest = top;
            for (int t = 0; t < TILE && tile * TILE + t <= last; ++t) {
                const float weight = expf(weights[t] - top);
                sum += weight;
                total += weight * float(v[((batch * sk + tile * TILE + t) * hkv + group) * HEAD_DIM + threadIdx.x]);
            }
        }
        out[((batch * sq + i) * h + head) * HEAD_DIM + threadIdx.x] = Element(sum > 0.f ? total / sum : 0.f);
        if (threadIdx.x == 0) lse[(batch * h + head) * sq + i] = sum > 0.f ? largest + logf(sum) : minus_infinity();
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        __threadfence();
        if (atomicAdd(counter + 1, 1) == int(gridDim.x) - 1) counter[0] = counter[1] = 0;
    }
}
