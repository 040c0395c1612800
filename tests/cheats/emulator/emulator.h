// Enough of CUDA to run the pack's plain kernels on a CPU: blocks one after the other, threads as fibers that meet at barriers and
// shuffles, in an order that the caller turns round. No asynchronous copies, clusters, tensor maps or grid-wide waiting.
#pragma once
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <ucontext.h>
#include <vector>

#define __global__
#define __device__
#define __constant__
#define __forceinline__ inline
#define __shared__ static

namespace emulator {

enum class State { ready, at_warp, at_block, done };
struct Fiber { ucontext_t context; std::unique_ptr<char[]> stack; State state = State::ready; unsigned value = 0; };
struct Three { unsigned x = 1, y = 1, z = 1; };

inline ucontext_t scheduler;
inline std::vector<Fiber> fibers;
inline unsigned current = 0;
inline bool backwards = false;
inline std::vector<float> dynamic_shared;
inline void (*body)() = nullptr;

inline void start() {
    body();
    fibers[current].state = State::done;
    swapcontext(&fibers[current].context, &scheduler);
}

inline void wait(State state) {
    fibers[current].state = state;
    swapcontext(&fibers[current].context, &scheduler);
}

inline bool release(std::size_t from, std::size_t to, State state) {
    bool any = false;
    for (std::size_t i = from; i < to; ++i) {
        if (fibers[i].state == State::done) continue;
        if (fibers[i].state != state) return false;
        any = true;
    }
    for (std::size_t i = from; i < to && any; ++i)
        if (fibers[i].state == state) fibers[i].state = State::ready;
    return any;
}

inline void run_block(unsigned threads) {
    fibers = std::vector<Fiber>(threads);
    for (Fiber& fiber : fibers) {
        fiber.stack.reset(new char[1 << 16]);
        getcontext(&fiber.context);
        fiber.context.uc_stack = {fiber.stack.get(), 0, 1 << 16};
        fiber.context.uc_link = nullptr;
        makecontext(&fiber.context, start, 0);
    }
    for (bool moved = true; moved;) {
        moved = false;
        for (unsigned i = 0; i < threads; ++i) {
            current = backwards ? threads - 1 - i : i;
            if (fibers[current].state != State::ready) continue;
            swapcontext(&scheduler, &fibers[current].context);
            moved = true;
        }
        for (unsigned warp = 0; warp < threads; warp += 32) moved |= release(warp, warp + 32 < threads ? warp + 32 : threads, State::at_warp);
        moved |= release(0, threads, State::at_block);
    }
    for (const Fiber& fiber : fibers)
        if (fiber.state != State::done) std::exit(5);
}

}  // namespace emulator

static emulator::Three blockIdx, blockDim, gridDim;
struct { struct { operator unsigned() const { return emulator::current % blockDim.x; } } x;
         struct { operator unsigned() const { return emulator::current / blockDim.x; } } y; } static threadIdx;

inline void __syncthreads() { emulator::wait(emulator::State::at_block); }
inline void __syncwarp() { emulator::wait(emulator::State::at_warp); }
inline void __threadfence() {}
inline void __nanosleep(unsigned) {}
inline float __int_as_float(int bits) { float value; std::memcpy(&value, &bits, 4); return value; }
inline int __float_as_int(float value) { int bits; std::memcpy(&bits, &value, 4); return bits; }
inline unsigned __float_as_uint(float value) { return __float_as_int(value); }
template <class T> T min(T a, T b) { return b < a ? b : a; }
template <class T> T max(T a, T b) { return a < b ? b : a; }
inline int min(int a, unsigned b) { return min(a, int(b)); }

template <class T>
T exchanged(T value, unsigned from) {
    std::memcpy(&emulator::fibers[emulator::current].value, &value, 4);
    __syncwarp();
    const unsigned other = emulator::current / 32 * 32 + from % 32;
    T result = value;
    if (other < emulator::fibers.size()) std::memcpy(&result, &emulator::fibers[other].value, 4);
    __syncwarp();
    return result;
}
template <class T> T __shfl_xor_sync(unsigned, T value, int mask) { return exchanged(value, emulator::current % 32 ^ mask); }
template <class T> T __shfl_sync(unsigned, T value, int from) { return exchanged(value, from); }
template <class T> T __shfl_down_sync(unsigned, T value, int step) {
    const unsigned lane = emulator::current % 32;
    return exchanged(value, lane + step < 32 ? lane + step : lane);
}
template <class T> T atomicAdd(T* place, T value) { const T old = *place; *place = old + value; return old; }

struct __half {
    _Float16 value;
    __half() = default;
    __half(float x) : value(static_cast<_Float16>(x)) {}
    operator float() const { return value; }
    __half& operator+=(float x) { return *this = __half(float(value) + x); }
    __half operator*(__half other) const { return __half(float(value) * float(other.value)); }
};
struct __nv_bfloat16 {
    unsigned short bits;
    __nv_bfloat16() = default;
    __nv_bfloat16(float x) {
        unsigned wide;
        std::memcpy(&wide, &x, 4);
        bits = std::isnan(x) ? 0x7fff : (wide + 0x7fff + (wide >> 16 & 1)) >> 16;
    }
    operator float() const { return __int_as_float(static_cast<int>(static_cast<unsigned>(bits) << 16)); }
    __nv_bfloat16& operator+=(float x) { return *this = __nv_bfloat16(float(*this) + x); }
};
inline float __half2float(__half x) { return x; }
inline __half __float2half(float x) { return x; }

namespace emulator {

struct Value { void* pointer = nullptr; int integer = 0; float real = 0; };
template <class T> T as(const Value& value) {
    if constexpr (std::is_pointer_v<T>) return static_cast<T>(const_cast<void*>(static_cast<const void*>(value.pointer)));
    else if constexpr (std::is_same_v<T, float>) return value.real;
    else return value.integer;
}
template <class... P, std::size_t... I>
void call(void (*kernel)(P...), const std::vector<Value>& args, std::index_sequence<I...>) { kernel(as<P>(args[I])...); }

template <class... P>
void launch(void (*kernel)(P...), Three grid, Three block, unsigned shared_bytes, const std::vector<Value>& args) {
    static void (*chosen)(P...);
    static const std::vector<Value>* given;
    chosen = kernel, given = &args, gridDim = grid, blockDim = block;
    body = [] { call(chosen, *given, std::index_sequence_for<P...>{}); };
    for (unsigned z = 0; z < grid.z; ++z)
        for (unsigned y = 0; y < grid.y; ++y)
            for (unsigned x = 0; x < grid.x; ++x) {
                blockIdx = {x, y, z};
                dynamic_shared.assign(shared_bytes / 4 + 1, NAN);
                run_block(block.x * block.y);
            }
}

inline std::vector<char> read(std::size_t bytes) {
    std::vector<char> content(bytes + 4096, char(0xff));
    if (std::fread(content.data(), 1, bytes, stdin) != bytes) std::exit(6);
    return content;
}

}  // namespace emulator
