// One launch for few rows, another for many, each with its own block.
/* plan
domain = "dtype == 'fp32'"

[[launch]]
kernel = "scaled"
when = "n <= 100"
grid = ["n"]
block = [32]
args = ["x", "w", "y", "total", "n", "m"]

[[launch]]
kernel = "many"
when = "n > 100"
grid = ["ceil_div(n, 4)"]
block = [32, 4]
args = ["x", "w", "y", "total", "n", "m"]
*/
__device__ __forceinline__ void compute(const float* x, const float* w, float* y, float* total, int row, int m) {
    float sum = 0.f;
    for (int j = threadIdx.x; j < m; j += 32) {
        const float value = x[row * m + j] * w[j];
        y[row * m + j] = value;
        sum += value;
    }
    for (int step = 16; step; step >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, step);
    if (threadIdx.x == 0) total[row] = sum;
}

extern "C" __global__ void scaled(const float* x, const float* w, float* y, float* total, int n, int m) {
    compute(x, w, y, total, blockIdx.x, m);
}

extern "C" __global__ void many(const float* x, const float* w, float* y, float* total, int n, int m) {
    const int row = blockIdx.x * 4 + threadIdx.y;
    if (row < n) compute(x, w, y, total, row, m);
}
