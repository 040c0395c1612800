// One warpgroup: TMA brings a 64 x 64 tile of q and of k, wgmma multiplies them (q k^T). sm_90a only.
struct alignas(64) TensorMap { char bytes[128]; };

__device__ __forceinline__ unsigned long long descriptor(unsigned address) {
    return (unsigned long long)((address & 0x3FFFF) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

__device__ __forceinline__ void load(const TensorMap* map, unsigned target, unsigned bar, int row) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(target),
        "l"(map), "r"(0), "r"(row), "r"(bar)
        : "memory");
}

extern "C" __global__ void __launch_bounds__(128) scores(const __grid_constant__ TensorMap q_map, const __grid_constant__ TensorMap k_map,
                                                         float* out, float scale) {
    extern __shared__ __align__(1024) unsigned char tiles[];
    __shared__ alignas(8) unsigned long long full;
    const unsigned bar = __cvta_generic_to_shared(&full), q = __cvta_generic_to_shared(tiles), k = q + 64 * 128;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar));
        asm volatile("fence.mbarrier_init.release.cluster;");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(2 * 64 * 128) : "memory");
        load(&q_map, q, bar, blockIdx.x * 64);
        load(&k_map, k, bar, blockIdx.y * 64);
    }
    __syncthreads();
    asm volatile(
        "{ .reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0; @!done bra again; }" ::"r"(bar) : "memory");
    float c[4] = {0.f, 0.f, 0.f, 0.f};
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    for (int step = 0; step < 4; ++step) {
#ifdef LOST
        for (int i = 0; i < 4; ++i) c[i] *= scale;  // touches the accumulators while a product is under way
#endif
        asm volatile(
            "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0,%1,%2,%3}, %4, %5, 1, 1, 1, 0, 0;"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "l"(descriptor(q + 32 * step)), "l"(descriptor(k + 32 * step)));
    }
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])::"memory");
    for (int i = 0; i < 4; ++i) out[(blockIdx.x * 128 + threadIdx.x) * 4 + i] = c[i] * scale;
}
