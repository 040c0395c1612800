// Doesn't subtract the largest score.
/* plan
[constants]
IS_BF16 = "dtype == 'bf16'"
HEAD_DIM = "d"

[[launch]]
kernel = "attention"
grid = ["sq", "h", "b"]
block = ["d"]
shared = "4 * sk"
args = ["q", "k", "v", "out", "lse", "scale", "sq", "sk", "hkv", "causal", "window"]
*/
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#if IS_BF16
typedef __nv_bfloat16 Element;
#else
typedef __half Element;
#endif

__device__ __forceinline__ float over_block(float value, bool largest) {
    __shared__ float parts[HEAD_DIM / 32];
    for (int step = 16; step; step >>= 1) {
        const float other = __shfl_xor_sync(0xffffffffu, value, step);
        value = largest ? fmaxf(value, other) : value + other;
    }
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    value = parts[0];
    for (int i = 1; i < HEAD_DIM / 32; ++i) value = largest ? fmaxf(value, parts[i]) : value + parts[i];
    __syncthreads();
    return value;
}

extern "C" __global__ void attention(const Element* q, const Element* k, const Element* v, Element* out, float* lse, float scale, int sq,
                                     int sk, int hkv, int causal, int window) {
    extern __shared__ float weights[];
    const int i = blockIdx.x, head = blockIdx.y, batch = blockIdx.z, heads = gridDim.y, group = head / (heads / hkv);
    const int p = i + sk - sq;
    const int first = window ? max(0, p - window) : 0, last = causal || window ? min(p, sk - 1) : sk - 1;
    const Element* row = q + ((batch * sq + i) * heads + head) * HEAD_DIM;
    float largest = -__int_as_float(0x7f800000);
    for (int j = first + threadIdx.x; j <= last; j += HEAD_DIM) {
        const Element* key = k + ((batch * sk + j) * hkv + group) * HEAD_DIM;
        float score = 0.f;
        for (int c = 0; c < HEAD_DIM; ++c) score += float(row[c]) * float(key[c]);
        weights[j] = score * scale;
        largest = fmaxf(largest, weights[j]);
    }
    largest = over_block(largest, true) * 0.f;
    float sum = 0.f;
    for (int j = first + threadIdx.x; j <= last; j += HEAD_DIM) {
        weights[j] = expf(weights[j] - largest);
        sum += weights[j];
    }
    sum = over_block(sum, false);
    float result = 0.f;
    for (int j = first; j <= last; ++j)
        result += weights[j] * float(v[((batch * sk + j) * hkv + group) * HEAD_DIM + threadIdx.x]);
    out[((batch * sq + i) * heads + head) * HEAD_DIM + threadIdx.x] = Element(last < first ? 0.f : result / sum);
    if (threadIdx.x == 0) lse[(batch * heads + head) * sq + i] = last < first ? -__int_as_float(0x7f800000) : largest + logf(sum);
}
