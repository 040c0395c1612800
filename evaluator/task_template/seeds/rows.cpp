/* plan
# A candidate: a launch plan, then device code only. The harness owns threads, memory and clock.
domain = "width >= 1"                        # scenarios that this kernel claims; true for all here

[knobs]                                      # compile-time numbers that a tuner may turn
ROWS  = { value = 8,  choices = [1, 4, 8, 32] }
LANES = { value = 16, choices = [4, 8, 16, 32, 64] }

[[launch]]
kernel = "rms_norm"
grid   = ["ceil_div(batch, ROWS)"]           # this many independent tasks
args   = ["x", "weight", "y", "batch", "width", "epsilon"]
*/
#include <math.h>

// One task normalises ROWS rows. args[i] points to a tensor's first element or to a scalar's value, in the order of the plan.
extern "C" void rms_norm(long task, void* const* args) {
    const float* x = static_cast<const float*>(args[0]);
    const float* weight = static_cast<const float*>(args[1]);
    float* y = static_cast<float*>(args[2]);
    const int batch = *static_cast<const int*>(args[3]);
    const int width = *static_cast<const int*>(args[4]);
    const float epsilon = *static_cast<const float*>(args[5]);

    const long first = task * ROWS;
    const long last = first + ROWS < batch ? first + ROWS : batch;
    for (long row = first; row < last; ++row) {
        const float* in = x + row * width;
        float* out = y + row * width;
        float lanes[LANES] = {};             // several partial sums, so that the loop can use vector registers
        int column = 0;
        for (; column + LANES <= width; column += LANES) {
            for (int lane = 0; lane < LANES; ++lane) {
                lanes[lane] += in[column + lane] * in[column + lane];
            }
        }
        float total = 0.0f;
        for (int lane = 0; lane < LANES; ++lane) {
            total += lanes[lane];
        }
        for (; column < width; ++column) {
            total += in[column] * in[column];
        }
        const float inverse = 1.0f / sqrtf(total / static_cast<float>(width) + epsilon);
        for (int j = 0; j < width; ++j) {
            out[j] = weight[j] * (in[j] * inverse);
        }
    }
}
