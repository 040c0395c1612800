// Two phases with a grid barrier of its own in a self-resetting workspace. Any architecture.
extern "C" __global__ void sums(const float* x, float* partial, int* counter, float* out, int n) {
    float sum = 0.f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += x[i];
    for (int step = 16; step; step >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, step);
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = sum;
        __threadfence();
        atomicAdd(counter, 1);
        while (atomicAdd(counter, 0) < int(gridDim.x)) __nanosleep(50);
        __threadfence();
        if (atomicAdd(counter + 1, 1) == int(gridDim.x) - 1) counter[0] = counter[1] = 0;
        float total = 0.f;
        for (int i = 0; i < int(gridDim.x); ++i) total += static_cast<volatile float*>(partial)[i];
        out[blockIdx.x] = total;
    }
}
