// A tensor map over rows of 12 bytes.
/* plan
domain = "dtype == 'fp32'"

[workspace]
scratch = { dtype = "float32", shape = ["n", 3] }

[tensor_maps]
scratch_map = { tensor = "scratch", box = { n = 8, axis1 = 4 } }

[[launch]]
kernel = "scaled"
grid = ["n"]
block = [32]
args = ["x", "w", "y", "total", "n", "m", "scratch_map"]
*/
struct alignas(64) TensorMap { char bytes[128]; };
extern "C" __global__ void scaled(const float* x, const float* w, float* y, float* total, int n, int m, const __grid_constant__ TensorMap scratch_map) {
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
