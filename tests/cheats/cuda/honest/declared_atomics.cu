// Adds floats in any order into a workspace that the harness zeroes, and says so.
/* plan
nondeterministic = true
domain = "dtype == 'fp32'"

[workspace]
partial = { dtype = "float32", shape = ["n"], init = "zero" }

[[launch]]
kernel = "scaled"
grid = ["n", "ceil_div(m, 32)"]
block = [32]
args = ["x", "w", "y", "partial", "m"]

[[launch]]
kernel = "copied"
grid = ["n"]
block = [1]
args = ["partial", "total"]
*/
extern "C" __global__ void scaled(const float* x, const float* w, float* y, float* partial, int m) {
    const int row = blockIdx.x, j = blockIdx.y * 32 + threadIdx.x;
    if (j >= m) return;
    const float value = x[row * m + j] * w[j];
    y[row * m + j] = value;
    atomicAdd(partial + row, value);
}

extern "C" __global__ void copied(const float* partial, float* total) { total[blockIdx.x] = partial[blockIdx.x]; }
