// Runs the kernels of evaluator/cuda/arrays.cu on a CPU, one thread of the host for each thread of a block, one block after the
// other. A function emulate_NAME with a kernel's arguments, then blocks and threads, stands for its launch.

#include <barrier>
#include <cmath>
#include <cstring>
#include <thread>
#include <vector>

#define __device__ inline
#define __global__
#define __shared__ static

struct Index { unsigned x; };
static thread_local Index threadIdx;
static Index blockIdx, blockDim, gridDim;
static std::barrier<>* together;

static void __syncthreads() { together->arrive_and_wait(); }
template <class To, class From> static To as(From value) { To other; std::memcpy(&other, &value, sizeof other); return other; }
static float __uint_as_float(unsigned bits) { return as<float>(bits); }
static unsigned __float_as_uint(float value) { return as<unsigned>(value); }
static double __longlong_as_double(long long bits) { return as<double>(bits); }
using std::exp; using std::fabs; using std::fmax;

#include ARRAYS

template <class... Arguments> static void launch(void (*kernel)(Arguments...), unsigned blocks, unsigned threads, Arguments... all) {
  std::barrier<> barrier(threads);
  together = &barrier;
  blockDim = {threads}, gridDim = {blocks};
  for (blockIdx = {0}; blockIdx.x < blocks; blockIdx.x++) {
    std::vector<std::thread> running;
    for (unsigned thread = 0; thread < threads; thread++)
      running.emplace_back([=] { threadIdx = {thread}; kernel(all...); });
    for (std::thread& one : running) one.join();
  }
}

#define EMULATE_MOVE(name, Type)                                                                                                \
  extern "C" void emulate_##name(const Type* from, Type* to, const u32* terms, u32 groups, unsigned blocks, unsigned threads) { \
    launch(name, blocks, threads, from, to, terms, groups);                                                                     \
  }
EMULATE_MOVE(move_bf16_8, u16)
EMULATE_MOVE(move_bf16_1, u16)
EMULATE_MOVE(move_fp16_8, u16)
EMULATE_MOVE(move_fp16_1, u16)
EMULATE_MOVE(move_fp32_4, float)
EMULATE_MOVE(move_fp32_1, float)

#define EMULATE_JUDGE(name, Type, Wanted)                                                                                 \
  extern "C" void emulate_##name(const Type* got, const Wanted* expected, const double* row_allowed, u32 count, u32 columns, \
                                 double* lines, unsigned blocks, unsigned threads) {                                      \
    launch(name, blocks, threads, got, expected, row_allowed, count, columns, lines);                                     \
  }
EMULATE_JUDGE(judge_bf16_8, u16, double)
EMULATE_JUDGE(judge_bf16_4, u16, float)
EMULATE_JUDGE(judge_fp16_8, u16, double)
EMULATE_JUDGE(judge_fp16_4, u16, float)
EMULATE_JUDGE(judge_fp32_8, float, double)
EMULATE_JUDGE(judge_fp32_4, float, float)

extern "C" void emulate_weigh(double* scores, double* peaks, double* sums, const int* first, const int* last, u32 rows, u32 keys,
                              unsigned blocks, unsigned threads) {
  launch(weigh, blocks, threads, scores, peaks, sums, first, last, rows, keys);
}
