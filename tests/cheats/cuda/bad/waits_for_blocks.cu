// Blocks wait for blocks that can't start before they end.
/* plan
domain = "dtype == 'fp32'"

[workspace]
counter = { dtype = "int32", shape = [1], init = "zero" }

[[launch]]
kernel = "scaled"
grid = ["64 * sm_count * n"]
block = [32]
args = ["x", "w", "y", "total", "n", "m", "counter"]
*/
extern "C" __global__ void scaled(const float* x, const float* w, float* y, float* total, int n, int m, int* counter) {
    const int row = blockIdx.x;
    if (threadIdx.x == 0) {
        atomicAdd(counter, 1);
        while (atomicAdd(counter, 0) < int(gridDim.x)) __nanosleep(100);
    }
    __syncwarp();
    if (row >= n) return;
    float sum = 0.f;
    for (int j = threadIdx.x; j < m; j += 32) {
        const float value = x[row * m + j] * w[j];
        y[row * m + j] = value;
        sum += value;
    }
    for (int step = 16; step; step >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, step);
    if (threadIdx.x == 0) total[row] = sum;
}
