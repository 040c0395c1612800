// Calls itself until the stack ends.
/* plan
domain = "dtype == 'fp32'"

[[launch]]
kernel = "scaled"
grid = ["n"]
block = [32]
args = ["x", "w", "y", "total", "n", "m"]
*/
__device__ __noinline__ float deeper(const float* x, int i) { return i < 0 ? x[0] : x[i & 63] * deeper(x, i + 1) + deeper(x, i + 2); }
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
    if (threadIdx.x == 0) total[row] = sum + 0.f * deeper(x, row);
}
