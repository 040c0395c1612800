// Partial sums of four parts of a row in a workspace, put together by a second launch.
/* plan
domain = "dtype == 'fp32'"

[workspace]
partial = { dtype = "float32", shape = ["n", 4] }

[[launch]]
kernel = "scaled"
grid = ["n", 4]
block = [32]
args = ["x", "w", "y", "partial", "m"]

[[launch]]
kernel = "together"
grid = ["ceil_div(n, 128)"]
block = [128]
args = ["partial", "total", "n"]
*/
extern "C" __global__ void scaled(const float* x, const float* w, float* y, float* partial, int m) {
    const int row = blockIdx.x, part = blockIdx.y;
    float sum = 0.f;
    for (int j = part * 32 + threadIdx.x; j < m; j += 128) {
        const float value = x[row * m + j] * w[j];
        y[row * m + j] = value;
        sum += value;
    }
    for (int step = 16; step; step >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, step);
    if (threadIdx.x == 0) partial[row * 4 + part] = sum;
}

extern "C" __global__ void together(const float* partial, float* total, int n) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < n) total[row] = (partial[row * 4] + partial[row * 4 + 1]) + (partial[row * 4 + 2] + partial[row * 4 + 3]);
}
