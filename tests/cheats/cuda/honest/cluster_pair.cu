// Two blocks of a cluster share a row and add up through distributed shared memory.
/* plan
domain = "dtype == 'fp32'"

[[launch]]
kernel = "scaled"
grid = ["2 * n"]
cluster = [2]
block = [32]
args = ["x", "w", "y", "total", "n", "m"]
*/
extern "C" __global__ void scaled(const float* x, const float* w, float* y, float* total, int n, int m) {
    __shared__ float both[2];
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    const int row = blockIdx.x / 2;
    float sum = 0.f;
    for (int j = rank * 32 + threadIdx.x; j < m; j += 64) {
        const float value = x[row * m + j] * w[j];
        y[row * m + j] = value;
        sum += value;
    }
    for (int step = 16; step; step >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, step);
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
    if (threadIdx.x == 0) {
        unsigned first;
        asm volatile("mapa.shared::cluster.u32 %0, %1, 0;" : "=r"(first) : "r"(unsigned(__cvta_generic_to_shared(both + rank))));
        asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(first), "f"(sum) : "memory");
    }
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
    if (rank == 0 && threadIdx.x == 0) total[row] = both[0] + both[1];
}
