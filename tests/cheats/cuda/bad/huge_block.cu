// More threads than a block can have.
/* plan
domain = "dtype == 'fp32'"

[[launch]]
kernel = "scaled"
grid = ["n"]
block = [2048]
args = ["x", "w", "y", "total", "n", "m"]
*/
extern "C" __global__ void scaled(const float* x, const float* w, float* y, float* total, int n, int m) {
    const int row = blockIdx.x;
    float sum = 0.f;
    for (int j = threadIdx.x; j < m; j += 32) {
        const float value = x[row * m + j] * w[j];
        y[row * m + j] = value;
        sum += value;
    }
    for (int step = 16; step; step >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, step);
    if (threadIdx.x == 0) total[row] = sum;
}
