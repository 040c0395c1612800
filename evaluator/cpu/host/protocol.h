// What crosses between the parent (evaluator/cpu/child.py, layout.py) and the host: one configuration, commands, records.
// Every struct has the same layout as the `struct` format beside it in Python. Little endian, no implicit padding.
#pragma once
#include <cstdint>

constexpr uint32_t MAGIC = 0x4b514153;
constexpr uint32_t MOST_SLOTS = 251;  // of one command

// The configuration: Header, Core[threads], Map[maps], Zero[zeros], Launch[launches], then the address of the
// argument array of each slot and launch (slot major).
struct Header {
    uint32_t magic, threads, slots, launches, maps, zeros;
    uint64_t span_address, span_bytes;  // reserved whole and inaccessible; everything below is mapped inside
};
struct Core {
    uint64_t stack_address, stack_bytes;
    int32_t core;
    uint32_t unused;
};
struct Map {
    uint64_t address, bytes, offset;
    int32_t descriptor;
    uint32_t writable;
};
struct Zero {  // cleared before the first launch of its slot, inside the timed window
    uint64_t address, bytes;
    uint32_t slot, unused;
};
struct Launch {
    char kernel[256];
    uint64_t tasks;  // below 2^32
};

struct Command {
    uint64_t sequence, seed;
    uint32_t count;
    uint32_t slots[MOST_SLOTS];
};

enum Kind : uint32_t { READY = 1, DONE = 2, SIGNAL = 3, FLOAT_CONTROL = 4 };

struct Record {
    uint32_t magic, kind;
    uint64_t sequence;
    uint32_t thread, launch;
    uint64_t task;
    int32_t signal, code;
    uint64_t address, instruction;
    uint32_t wrote, detail;  // detail: READY: protections that are missing; SIGSYS: system call; FLOAT_CONTROL: MXCSR
    uint8_t bytes[16];       // at the faulting instruction
};
static_assert(sizeof(Header) == 40 && sizeof(Core) == 24 && sizeof(Map) == 32 && sizeof(Zero) == 24);
static_assert(sizeof(Launch) == 264 && sizeof(Command) == 1024 && sizeof(Record) == 80);
