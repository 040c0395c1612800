// Adds floats in any order without saying so.
/* plan
domain = "dtype == 'fp32'"

[[launch]]
kernel = "cleared"
grid = ["n"]
block = [1]
args = ["total"]

[[launch]]
kernel = "scaled"
grid = ["n", "ceil_div(m, 32)"]
block = [32]
args = ["x", "w", "y", "total", "n", "m"]
*/
extern "C" __global__ void cleared(float* total) { total[blockIdx.x] = 0.f; }

extern "C" __global__ void scaled(const float* x, const float* w, float* y, float* total, int n, int m) {
    const int row = blockIdx.x, j = blockIdx.y * 32 + threadIdx.x;
    if (j >= m) return;
    const float value = x[row * m + j] * w[j];
    y[row * m + j] = value;
    atomicAdd(total + row, value);
}
