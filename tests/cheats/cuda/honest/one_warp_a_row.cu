// The plain kernel, for both element types.
/* plan
[constants]
HALF = "dtype == 'fp16'"

[[launch]]
kernel = "scaled"
grid = ["n"]
block = [32]
args = ["x", "w", "y", "total", "n", "m"]
*/
#include <cuda_fp16.h>

#if HALF
typedef __half Element;
#else
typedef float Element;
#endif

extern "C" __global__ void scaled(const Element* x, const float* w, Element* y, float* total, int n, int m) {
    const int row = blockIdx.x;
    float sum = 0.f;
    for (int j = threadIdx.x; j < m; j += 32) {
        const float value = float(x[row * m + j]) * w[j];
        y[row * m + j] = Element(value);
        sum += value;
    }
    for (int step = 16; step; step >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, step);
    if (threadIdx.x == 0) total[row] = sum;
}
