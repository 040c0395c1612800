// One cooperative launch with a grid barrier of its own between its two phases.
/* plan
domain = "dtype == 'fp32'"

[workspace]
partial = { dtype = "float32", shape = ["n"] }
counter = { dtype = "int32", shape = [2], init = "zero", self_resetting = true }

[[launch]]
kernel = "scaled"
grid = ["min(n, sm_count)"]
block = [32]
cooperative = true
args = ["x", "w", "y", "total", "n", "m", "partial", "counter"]
*/
extern "C" __global__ void scaled(const float* x, const float* w, float* y, float* total, int n, int m, float* partial, int* counter) {
    for (int row = blockIdx.x; row < n; row += gridDim.x) {
        float sum = 0.f;
        for (int j = threadIdx.x; j < m; j += 32) {
            const float value = x[row * m + j] * w[j];
            y[row * m + j] = value;
            sum += value;
        }
        for (int step = 16; step; step >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, step);
        if (threadIdx.x == 0) partial[n - 1 - row] = sum;
    }
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(counter, 1);
        while (atomicAdd(counter, 0) < int(gridDim.x)) __nanosleep(50);
        __threadfence();
        if (atomicAdd(counter + 1, 1) == int(gridDim.x) - 1) counter[0] = counter[1] = 0;
    }
    __syncwarp();
    for (int row = blockIdx.x * 32 + threadIdx.x; row < n; row += gridDim.x * 32)
        total[row] = static_cast<volatile float*>(partial)[n - 1 - row];
}
