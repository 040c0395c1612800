// One warp per block: out = q k^T for a 16 x 8 tile over d, with tensor cores. sm_80 and newer.
#include <cuda_bf16.h>

static __device__ __forceinline__ unsigned pair(const __nv_bfloat16* p) { return *reinterpret_cast<const unsigned*>(p); }

extern "C" __global__ void __launch_bounds__(32) scores(const __nv_bfloat16* q, const __nv_bfloat16* k, float* out, float scale, int d) {
    __shared__ float tile[16 * 8];
    const int lane = threadIdx.x, group = lane >> 2, member = lane & 3;
    float c[4] = {0.f, 0.f, 0.f, 0.f};
    for (int step = 0; step < d; step += 16) {
        const __nv_bfloat16* row = q + (blockIdx.x * 16 + group) * d + step + 2 * member;
        const __nv_bfloat16* column = k + (blockIdx.y * 8 + group) * d + step + 2 * member;
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(pair(row)), "r"(pair(row + 8 * d)), "r"(pair(row + 8)), "r"(pair(row + 8 * d + 8)), "r"(pair(column)),
              "r"(pair(column + 8)));
    }
    for (int i = 0; i < 4; ++i) tile[(group + 8 * (i >> 1)) * 8 + 2 * member + (i & 1)] = c[i] * scale;
    __syncwarp();
    for (int i = lane; i < 16 * 8; i += 32) out[(blockIdx.x * 16 + i / 8) * gridDim.y * 8 + blockIdx.y * 8 + i % 8] = tile[i];
}
