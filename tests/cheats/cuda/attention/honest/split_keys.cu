// Keys split over blocks: partial results in a workspace, put together by a second launch.
/* plan
[constants]
IS_BF16 = "dtype == 'bf16'"
HEAD_DIM = "d"

[knobs]
PARTS = { value = 3, choices = [1, 3, 8] }

[workspace]
sums = { dtype = "float32", shape = ["b", "h", "sq", "PARTS", "d"] }
ends = { dtype = "float32", shape = ["b", "h", "sq", "PARTS", 2] }

[scalars]
part_keys = "ceil_div(sk, PARTS)"

[[launch]]
kernel = "parts"
grid = ["sq * PARTS", "h", "b"]
block = ["d"]
args = ["q", "k", "v", "sums", "ends", "scale", "sq", "sk", "hkv", "causal", "window", "part_keys"]

[[launch]]
kernel = "together"
grid = ["sq", "h", "b"]
block = ["d"]
args = ["sums", "ends", "out", "lse", "sq"]
*/
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#if IS_BF16
typedef __nv_bfloat16 Element;
#else
typedef __half Element;
#endif

__device__ __forceinline__ float minus_infinity() { return -__int_as_float(0x7f800000); }

extern "C" __global__ void parts(const Element* q, const Element* k, const Element* v, float* sums, float* ends, float scale, int sq, int sk,
                                 int hkv, int causal, int window, int part_keys) {
    __shared__ float products[HEAD_DIM];
    const int i = blockIdx.x / PARTS, part = blockIdx.x % PARTS, head = blockIdx.y, batch = blockIdx.z, heads = gridDim.y;
    const int group = head / (heads / hkv), p = i + sk - sq;
    const int first = max(window ? max(0, p - window) : 0, part * part_keys);
    const int last = min(causal || window ? min(p, sk - 1) : sk - 1, (part + 1) * part_keys - 1);
    const float query = float(q[((batch * sq + i) * heads + head) * HEAD_DIM + threadIdx.x]);
    float largest = minus_infinity(), sum = 0.f, total = 0.f;
    for (int j = first; j <= last; ++j) {
        const int at = ((batch * sk + j) * hkv + group) * HEAD_DIM;
        products[threadIdx.x] = query * float(k[at + threadIdx.x]);
        __syncthreads();
        float score = 0.f;
        for (int c = 0; c < HEAD_DIM; ++c) score += products[c];
        __syncthreads();
        score *= scale;
        const float top = fmaxf(largest, score), keep = expf(largest - top), weight = expf(score - top);
        largest = top;
        sum = sum * keep + weight;
        total = total * keep + weight * float(v[at + threadIdx.x]);
    }
    const int place = ((batch * heads + head) * sq + i) * PARTS + part;
    sums[place * HEAD_DIM + threadIdx.x] = total;
    if (threadIdx.x == 0) ends[2 * place] = largest, ends[2 * place + 1] = sum;
}

extern "C" __global__ void together(const float* sums, const float* ends, Element* out, float* lse, int sq) {
    const int i = blockIdx.x, head = blockIdx.y, batch = blockIdx.z, heads = gridDim.y;
    const int row = (batch * heads + head) * sq + i;
    float largest = minus_infinity(), sum = 0.f, total = 0.f;
    for (int part = 0; part < PARTS; ++part) largest = fmaxf(largest, ends[2 * (row * PARTS + part)]);
    for (int part = 0; part < PARTS; ++part) {
        const int place = row * PARTS + part;
        if (ends[2 * place + 1] == 0.f) continue;
        const float keep = expf(ends[2 * place] - largest);
        sum += keep * ends[2 * place + 1];
        total += keep * sums[place * HEAD_DIM + threadIdx.x];
    }
    out[((batch * sq + i) * heads + head) * HEAD_DIM + threadIdx.x] = Element(sum > 0.f ? total / sum : 0.f);
    if (threadIdx.x == 0) lse[row] = sum > 0.f ? largest + logf(sum) : minus_infinity();
}
