// Holds a table of constants, waits a little, asks for its multiprocessor and prefetches.
/* plan
domain = "dtype == 'fp32'"

[[launch]]
kernel = "scaled"
grid = ["n"]
block = [32]
args = ["x", "w", "y", "total", "n", "m"]
*/
__constant__ float ones[4] = {1.f, 1.f, 1.f, 1.f};
extern "C" __global__ void scaled(const float* x, const float* w, float* y, float* total, int n, int m) {
    const int row = blockIdx.x;
    unsigned place;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(place));
    if (place & 1) __nanosleep(20);
    asm volatile("prefetch.global.L2 [%0];" ::"l"(x + row * m));
    float sum = 0.f;
    for (int j = threadIdx.x; j < m; j += 32) {
        const float value = x[row * m + j] * w[j] * ones[j & 3];
        y[row * m + j] = value;
        sum += value;
    }
    for (int step = 16; step; step >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, step);
    if (threadIdx.x == 0) total[row] = sum;
}
