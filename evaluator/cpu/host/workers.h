// The worker threads: they run the launches of a batch in order, with a barrier between, tasks in shuffled order.
#pragma once
#include <atomic>
#include <climits>
#include <cstring>

#include "protocol.h"
#include "seal.h"

using Kernel = void (*)(long task, void* const* args);

struct Worker {
    uint32_t index, launch;
    uint64_t task;
};

struct Host {
    const Header* header;
    const Core* cores;
    const Map* maps;
    const Zero* zeros;
    const Launch* launches;
    const uint64_t* arguments;
    Kernel kernels[64];
    int command_pipe, record_pipe;
    uint64_t text_begin, text_end;
    uint32_t missing;
    Command command;
};
inline Host host;
inline thread_local Worker* self = nullptr;

// A number that moves on, and threads that wait until it does: they spin for a while, then sleep.
struct alignas(64) Turn {
    std::atomic<uint32_t> value{0}, sleepers{0};

    void wait(uint32_t old, int spins) {
        for (int i = 0; i < spins; i++) {
            if (value.load(std::memory_order_acquire) != old) return;
            __builtin_ia32_pause();
        }
        sleepers.fetch_add(1);
        while (value.load() == old) host_call(SYS_futex, reinterpret_cast<long>(&value), 128, old, 0);
        sleepers.fetch_sub(1);
    }
    void advance() {
        value.fetch_add(1);
        if (sleepers.load() != 0) host_call(SYS_futex, reinterpret_cast<long>(&value), 129, INT_MAX, 0);
    }
};
inline Turn batch, step, opened, started;
alignas(64) inline std::atomic<uint64_t> next_task{0};
alignas(64) inline std::atomic<uint32_t> arrived{0};

constexpr int SPINS = 4000;  // between launches of a batch, tens of microseconds; never after a batch
constexpr uint32_t MXCSR_CONTROL = 0xffc0, MXCSR_DEFAULT = 0x1f80;
constexpr uint16_t X87_DEFAULT = 0x037f;

inline uint64_t mixed(uint64_t x) {  // splitmix64 (Steele, Lea, Flood 2014)
    x += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

inline uint64_t common_divisor(uint64_t a, uint64_t b) {
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

inline void set_float_control() {
    uint32_t mxcsr = MXCSR_DEFAULT;
    uint16_t x87 = X87_DEFAULT;
    asm volatile("cld; ldmxcsr %0; fldcw %1" ::"m"(mxcsr), "m"(x87));
}

inline void check_float_control() {
    uint32_t mxcsr;
    uint16_t x87;
    asm volatile("cld; stmxcsr %0; fnstcw %1" : "=m"(mxcsr), "=m"(x87));
    if ((mxcsr & MXCSR_CONTROL) == MXCSR_DEFAULT && x87 == X87_DEFAULT) return;
    Record record{MAGIC, FLOAT_CONTROL, host.command.sequence, self->index, self->launch, self->task};
    record.detail = mxcsr;
    host_call(SYS_write, host.record_pipe, reinterpret_cast<long>(&record), sizeof record, 0);
    host_call(SYS_exit_group, 70, 0, 0, 0);
}

// One launch in one slot: task i of the shuffle is (i * factor + shift) mod tasks, a bijection as factor and tasks are coprime.
inline void run_launch(uint32_t slot, uint32_t launch, uint64_t seed) {
    const uint64_t tasks = host.launches[launch].tasks;
    uint64_t factor = 1 + mixed(seed) % tasks;
    while (common_divisor(factor, tasks) != 1) factor++;
    const uint64_t shift = mixed(seed ^ 0x5bd1e995) % tasks;
    const Kernel kernel = host.kernels[launch];
    auto args = reinterpret_cast<void* const*>(host.arguments[slot * host.header->launches + launch]);
    self->launch = launch;
    for (;;) {
        const uint64_t i = next_task.fetch_add(1, std::memory_order_relaxed);
        if (i >= tasks) return;
        self->task = (i * factor + shift) % tasks;
        set_float_control();
        kernel(static_cast<long>(self->task), args);
        check_float_control();
    }
}

// Each thread clears its share, in whole cache lines.
inline void clear_workspaces(uint32_t slot) {
    const uint64_t threads = host.header->threads;
    for (uint32_t z = 0; z < host.header->zeros; z++) {
        const Zero& zero = host.zeros[z];
        if (zero.slot != slot) continue;
        const uint64_t share = ((zero.bytes + threads - 1) / threads + 63) / 64 * 64;
        const uint64_t from = share * self->index;
        if (from >= zero.bytes) continue;
        memset(reinterpret_cast<char*>(zero.address) + from, 0, from + share < zero.bytes ? share : zero.bytes - from);
    }
}

inline void run_batch() {
    const uint32_t phases = host.header->launches + (host.header->zeros ? 1 : 0);
    const uint32_t steps = host.command.count * phases;
    for (uint32_t s = 0; s < steps; s++) {
        const uint32_t slot = host.command.slots[s / phases], phase = s % phases;
        if (host.header->zeros && phase == 0)
            clear_workspaces(slot);
        else
            run_launch(slot, host.header->zeros ? phase - 1 : phase, host.command.seed + s);
        const uint32_t turn = step.value.load();
        if (arrived.fetch_add(1) + 1 == host.header->threads) {
            arrived.store(0);
            next_task.store(0);
            step.advance();
        } else if (s + 1 < steps || self->index == 0) {
            step.wait(turn, SPINS);
        }
    }
}
