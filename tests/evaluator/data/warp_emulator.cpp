// Runs the kernel of seeds/portable.cu on the CPU. Every thread is a fiber; what the kernel's namespace ptx holds, and CUDA's own
// functions, act here on the 32 fibers of a warp together, as the "Parallel Thread Execution ISA" describes them (ldmatrix, matrix
// fragments for mma.m16n8k16, cp.async). KERNEL names the source without its namespace ptx.
//
// Shared memory begins as NaN. Copies happen when they are waited for, or with `eager` when they start, and a warp runs as far as it
// can before another does: reading too early shows in one way, overwriting too early in the other.
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

using std::max;
using std::min;
#define __device__
#define __global__
#define __shared__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n)
#define __restrict__

struct uint4 { unsigned x, y, z, w; };
struct dim3 { unsigned x, y, z; };

namespace emulator {

constexpr int warp_size = 32;

// Where `size` fibers meet: the last to arrive acts for all, and everyone goes on.
struct Meeting {
    int size, arrived = 0;
    unsigned long round = 0;
};

struct Copy { unsigned to; const char* from; int bytes; };

struct Fiber {
    ucontext_t context;
    std::unique_ptr<char[]> stack;
    bool finished = false;
    const Meeting* waits = nullptr;
    unsigned long round = 0;
    unsigned exchange[8];
    std::vector<Copy> open;
    std::vector<std::vector<Copy>> groups;
};

std::vector<Fiber> fibers;
ucontext_t scheduler;
int current = 0;
unsigned block = 0, blocks = 0;
bool eager = false;
std::vector<Meeting> warp_meetings;
Meeting block_meeting;
std::vector<unsigned char> shared;
long conflicts = 0;
std::function<void()> body;

[[noreturn]] void fail(const char* what) {
    std::fprintf(stderr, "%s: thread %d of block %u\n", what, current, block);
    std::exit(2);
}

void meet(Meeting& meeting, const std::function<void()>& act) {
    const unsigned long round = meeting.round;
    if (++meeting.arrived == meeting.size) {
        act();
        meeting.arrived = 0;
        ++meeting.round;
        return;
    }
    Fiber& self = fibers[current];
    self.waits = &meeting;
    self.round = round;
    swapcontext(&self.context, &scheduler);
}

unsigned char* at(unsigned address, int bytes) {
    if (address + bytes > shared.size()) fail("shared memory out of bounds");
    if (address % bytes) fail("misaligned shared address");
    return shared.data() + address;
}

void perform(const Copy& copy) {
    if (copy.bytes == 0) std::memset(at(copy.to, 16), 0, 16);
    else if (copy.bytes == 16) std::memcpy(at(copy.to, 16), copy.from, 16);
    else fail("odd copy");
}

Meeting& warp() { return warp_meetings[current / warp_size]; }
Fiber& lane(int number) { return fibers[current / warp_size * warp_size + number]; }

void trampoline() {
    body();
    Fiber& self = fibers[current];
    if (!self.open.empty()) fail("copies never committed");
    self.finished = true;
    swapcontext(&self.context, &scheduler);
}

void run_block(int threads, std::size_t shared_bytes) {
    shared.assign(shared_bytes, 0xff);  // NaN in every type
    fibers = std::vector<Fiber>(threads);
    warp_meetings.assign(threads / warp_size, Meeting{warp_size});
    block_meeting = Meeting{threads};
    for (Fiber& fiber : fibers) {
        fiber.stack.reset(new char[1 << 18]);
        getcontext(&fiber.context);
        fiber.context.uc_stack.ss_sp = fiber.stack.get();
        fiber.context.uc_stack.ss_size = 1 << 18;
        fiber.context.uc_link = nullptr;
        makecontext(&fiber.context, trampoline, 0);
    }
    const int warps = threads / warp_size;
    for (bool moved = true; moved;) {
        moved = false;
        for (int number = 0; number < warps; ++number) {
            const int chosen = eager ? number : warps - 1 - number;
            for (bool again = true; again;) {
                again = false;
                for (int thread = chosen * warp_size; thread < (chosen + 1) * warp_size; ++thread) {
                    Fiber& fiber = fibers[thread];
                    if (fiber.finished || (fiber.waits && fiber.waits->round == fiber.round)) continue;
                    fiber.waits = nullptr;
                    current = thread;
                    swapcontext(&scheduler, &fiber.context);
                    again = moved = true;
                }
            }
        }
    }
    for (current = 0; current < threads; ++current)
        if (!fibers[current].finished) fail("deadlock");
}

float decode(unsigned short bits) {
#if IS_BF16
    const unsigned wide = static_cast<unsigned>(bits) << 16;
    float value;
    std::memcpy(&value, &wide, 4);
    return value;
#else
    _Float16 value;
    std::memcpy(&value, &bits, 2);
    return static_cast<float>(value);
#endif
}

unsigned short encode(float value) {
#if IS_BF16
    unsigned wide;
    std::memcpy(&wide, &value, 4);
    if (std::isnan(value)) return 0x7fff;
    return static_cast<unsigned short>((wide + 0x7fff + (wide >> 16 & 1)) >> 16);
#else
    const _Float16 narrow = static_cast<_Float16>(value);
    unsigned short bits;
    std::memcpy(&bits, &narrow, 2);
    return bits;
#endif
}

unsigned short half_of(unsigned both, int index) { return static_cast<unsigned short>(both >> 16 * index); }

void load(unsigned (&to)[4], unsigned from, bool transposed) {
    Fiber& self = fibers[current];
    self.exchange[0] = from;
    meet(warp(), [&] {
        unsigned result[warp_size][4];
        for (int matrix = 0; matrix < 4; ++matrix) {
            unsigned short values[8][8];
            unsigned banks = 0;
            for (int row = 0; row < 8; ++row) {
                const unsigned address = lane(8 * matrix + row).exchange[0];
                std::memcpy(values[row], at(address, 16), 16);
                conflicts += banks >> (address / 16 % 8) & 1;
                banks |= 1u << (address / 16 % 8);
            }
            for (int number = 0; number < warp_size; ++number) {
                const int group = number / 4, pair = number % 4 * 2;
                const unsigned low = transposed ? values[pair][group] : values[group][pair];
                const unsigned high = transposed ? values[pair + 1][group] : values[group][pair + 1];
                result[number][matrix] = low | high << 16;
            }
        }
        for (int number = 0; number < warp_size; ++number) std::memcpy(lane(number).exchange, result[number], 16);
    });
    std::memcpy(to, fibers[current].exchange, 16);
}

}  // namespace emulator

struct ThreadIndex { struct { operator unsigned() const { return emulator::current; } } x; };
struct GridSize { struct { operator unsigned() const { return emulator::blocks; } } x; };
static ThreadIndex threadIdx;
static GridSize gridDim;

inline float __int_as_float(unsigned bits) { float value; std::memcpy(&value, &bits, 4); return value; }
inline void __syncthreads() { emulator::meet(emulator::block_meeting, [] {}); }
inline void __syncwarp() { emulator::meet(emulator::warp(), [] {}); }

template <typename Value>
Value shuffle(Value value, const std::function<int(int)>& source) {
    std::memcpy(emulator::fibers[emulator::current].exchange, &value, 4);
    emulator::meet(emulator::warp(), [&] {
        unsigned before[32];
        for (int number = 0; number < 32; ++number) before[number] = emulator::lane(number).exchange[0];
        for (int number = 0; number < 32; ++number) emulator::lane(number).exchange[0] = before[source(number)];
    });
    std::memcpy(&value, emulator::fibers[emulator::current].exchange, 4);
    return value;
}
inline float __shfl_xor_sync(unsigned, float value, int mask) { return shuffle(value, [=](int lane) { return lane ^ mask; }); }
inline int __any_sync(unsigned, int value) {
    std::memcpy(emulator::fibers[emulator::current].exchange, &value, 4);
    emulator::meet(emulator::warp(), [] {
        unsigned any = 0;
        for (int number = 0; number < 32; ++number) any |= emulator::lane(number).exchange[0];
        for (int number = 0; number < 32; ++number) emulator::lane(number).exchange[0] = any;
    });
    return emulator::fibers[emulator::current].exchange[0];
}
inline float __logf(float x) { return std::log(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline int __shfl_sync(unsigned, int value, int from) { return shuffle(value, [=](int) { return from; }); }

namespace ptx {

using Operand4 = unsigned[4];
inline unsigned shared_address(const void*) { return 0; }
inline unsigned thread_number() { return emulator::current; }
inline int block_number() { return emulator::block; }
inline void copy_async(unsigned to, const void* from, int bytes) {
    const emulator::Copy copy{to, static_cast<const char*>(from), bytes};
    if (emulator::eager) emulator::perform(copy);
    emulator::fibers[emulator::current].open.push_back(copy);
}
inline void commit_copies() {
    emulator::Fiber& self = emulator::fibers[emulator::current];
    self.groups.push_back(self.open);
    self.open.clear();
}
template <int Pending>
void wait_copies() {
    emulator::Fiber& self = emulator::fibers[emulator::current];
    while (static_cast<int>(self.groups.size()) > Pending) {
        if (!emulator::eager)
            for (const emulator::Copy& copy : self.groups.front()) emulator::perform(copy);
        self.groups.erase(self.groups.begin());
    }
}
inline void load_matrices(Operand4& to, unsigned from) { emulator::load(to, from, false); }
inline void load_transposed(Operand4& to, unsigned from) { emulator::load(to, from, true); }
inline void multiply_add(float (&sum)[4], const Operand4& left, unsigned right_top, unsigned right_bottom) {
    emulator::Fiber& self = emulator::fibers[emulator::current];
    std::memcpy(self.exchange, left, 16);
    self.exchange[4] = right_top, self.exchange[5] = right_bottom;
    emulator::meet(emulator::warp(), [&] {
        // With g = lane / 4, t = lane % 4: a holds (g, 2t), (g + 8, 2t), (g, 2t + 8), (g + 8, 2t + 8), b (2t, g), (2t + 8, g).
        float a[16][16], b[16][8];
        for (int number = 0; number < 32; ++number)
            for (int half = 0; half < 2; ++half) {
                const int g = number / 4, column = number % 4 * 2 + half;
                const unsigned* held = emulator::lane(number).exchange;
                for (int i = 0; i < 4; ++i) a[g + i % 2 * 8][column + i / 2 * 8] = emulator::decode(emulator::half_of(held[i], half));
                for (int i = 0; i < 2; ++i) b[column + 8 * i][g] = emulator::decode(emulator::half_of(held[4 + i], half));
            }
        for (int number = 0; number < 32; ++number)
            for (int i = 0; i < 4; ++i) {
                float total = 0;
                for (int k = 0; k < 16; ++k) total += a[number / 4 + i / 2 * 8][k] * b[k][number % 4 * 2 + i % 2];
                std::memcpy(&emulator::lane(number).exchange[i], &total, 4);
            }
    });
    for (int i = 0; i < 4; ++i) {
        float more;
        std::memcpy(&more, &emulator::fibers[emulator::current].exchange[i], 4);
        sum[i] += more;
    }
}
inline unsigned pack(float low, float high) {
    return emulator::encode(low) | static_cast<unsigned>(emulator::encode(high)) << 16;
}
inline float exp2(float x) { const float y = std::exp2(x); return y < 1.17549435e-38f ? 0.0f : y; }
inline void store_shared(unsigned to, unsigned value) { std::memcpy(emulator::at(to, 4), &value, 4); }
inline uint4 load_shared(unsigned from) { uint4 value; std::memcpy(&value, emulator::at(from, 16), 16); return value; }

}  // namespace ptx
#include KERNEL

unsigned char memory[1];

// Arguments: b sq sk h hkv causal window section eager shared_bytes grid. Standard input: q, k, v, scale. Standard output: out, lse.
int main(int count, char** argv) {
    int n[12] = {};
    if (count != 12) return 3;
    for (int i = 1; i < count; ++i) n[i] = std::atoi(argv[i]);
    const int b = n[1], sq = n[2], sk = n[3], h = n[4], hkv = n[5], causal = n[6], window = n[7], section = n[8];
    emulator::eager = n[9];
    const std::size_t queries = std::size_t(b) * sq * h * HEAD_DIM, keys = std::size_t(b) * sk * hkv * HEAD_DIM;
    const std::size_t beyond = std::size_t(256) * h * HEAD_DIM;  // NaN behind every tensor
    std::vector<Bits> q(queries + beyond, 0x7fff), k(keys + beyond, 0x7fff), v(keys + beyond, 0x7fff), out(queries, 0x7fff);
    std::vector<float> lse(std::size_t(b) * h * sq, NAN);
    float scale;
    auto read = [](void* to, std::size_t bytes) {
        if (std::fread(to, 1, bytes, stdin) != bytes) std::exit(3);
    };
    read(q.data(), 2 * queries), read(k.data(), 2 * keys), read(v.data(), 2 * keys), read(&scale, 4);
    emulator::blocks = n[11];
    emulator::body = [&] {
        attention_forward(q.data(), k.data(), v.data(), out.data(), lse.data(), scale, sq, sk, h, hkv, causal, window, section, b * h,
                          h / hkv);
    };
    for (emulator::block = 0; emulator::block < emulator::blocks; ++emulator::block) emulator::run_block(threads, n[10]);
    if (emulator::conflicts) {
        std::fprintf(stderr, "%ld bank conflicts of ldmatrix\n", emulator::conflicts);
        return 4;
    }
    std::fwrite(out.data(), 2, queries, stdout);
    std::fwrite(lse.data(), 4, lse.size(), stdout);
}
