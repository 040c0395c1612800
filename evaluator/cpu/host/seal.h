// Locks the process down before any code of a candidate runs: no clock, no files, no system call but the host's own few.
#pragma once
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "protocol.h"

// The only system call instruction that the filter lets through, and the address after it, which the kernel reports.
extern "C" long host_call(long number, long a, long b, long c, long d);
extern "C" char host_call_return[];
asm(R"(
    .text
    .globl host_call, host_call_return
    .type host_call, @function
host_call:
    movq %rdi, %rax
    movq %rsi, %rdi
    movq %rdx, %rsi
    movq %rcx, %rdx
    movq %r8, %r10
    syscall
host_call_return:
    ret
    .size host_call, .-host_call
)");

enum Missing : uint32_t { NO_SECCOMP = 1, NO_TSC_TRAP = 2, CLOCK_PAGE = 4 };

// Per thread: rdtsc and rdtscp fault from here on.
inline bool forbid_clock() { return prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) == 0; }

// The kernel's clock page can be read without any instruction that could be trapped, so it goes.
inline bool unmap_clock_pages() {
    FILE* maps = fopen("/proc/self/maps", "r");
    if (!maps) return false;
    struct {
        unsigned long from, to;
    } found[8];
    int count = 0;
    char line[512];
    while (count < 8 && fgets(line, sizeof line, maps)) {
        bool ours = strstr(line, "[vdso]") || strstr(line, "[vvar");
        if (ours && sscanf(line, "%lx-%lx", &found[count].from, &found[count].to) == 2) count++;
    }
    fclose(maps);
    bool gone = true;
    for (int i = 0; i < count; i++) gone &= munmap(reinterpret_cast<void*>(found[i].from), found[i].to - found[i].from) == 0;
    return gone;
}

inline void limit(int resource, rlim_t most) {
    rlimit both{most, most};
    setrlimit(static_cast<__rlimit_resource>(resource), &both);
}

// All threads at once: read the command pipe, write the record pipe, futex, exit; and those only from host_call.
inline bool install_filter(int command_pipe, int record_pipe) {
    const auto gate = reinterpret_cast<uint64_t>(host_call_return);
    const auto load = [](unsigned offset) { return sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset); };
    const auto equal = [](uint32_t value, uint8_t then, uint8_t otherwise) {
        return sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, then, otherwise);
    };
    const auto answer = [](uint32_t value) { return sock_filter BPF_STMT(BPF_RET | BPF_K, value); };
    const unsigned first = offsetof(seccomp_data, args[0]), second = offsetof(seccomp_data, args[1]);
    sock_filter rules[] = {
        load(offsetof(seccomp_data, arch)),
        equal(AUDIT_ARCH_X86_64, 1, 0),
        answer(SECCOMP_RET_KILL_PROCESS),
        load(offsetof(seccomp_data, instruction_pointer)),
        equal(static_cast<uint32_t>(gate), 0, 17),
        load(offsetof(seccomp_data, instruction_pointer) + 4),
        equal(static_cast<uint32_t>(gate >> 32), 0, 15),
        load(offsetof(seccomp_data, nr)),
        equal(SYS_exit_group, 12, 0),
        equal(SYS_exit, 11, 0),
        equal(SYS_read, 3, 0),
        equal(SYS_write, 4, 0),
        equal(SYS_futex, 5, 0),
        answer(SECCOMP_RET_TRAP),
        load(first),
        equal(static_cast<uint32_t>(command_pipe), 5, 6),
        load(first),
        equal(static_cast<uint32_t>(record_pipe), 3, 4),
        load(second),
        equal(128 /* FUTEX_WAIT_PRIVATE */, 1, 0),
        equal(129 /* FUTEX_WAKE_PRIVATE */, 0, 1),
        answer(SECCOMP_RET_ALLOW),
        answer(SECCOMP_RET_TRAP),
    };
    sock_fprog program{sizeof rules / sizeof rules[0], rules};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}

// Closes every descriptor but the two pipes.
inline void close_all_but(int one, int other) {
    int low = one < other ? one : other, high = one < other ? other : one;
    if (low > 0) close_range(0, low - 1, 0);
    if (high - low > 1) close_range(low + 1, high - 1, 0);
    close_range(high + 1, ~0U, 0);
}

// Returns the protections that this machine did not grant.
inline uint32_t seal(int command_pipe, int record_pipe) {
    uint32_t missing = 0;
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_FSIZE, 0);
    limit(RLIMIT_NPROC, 0);
    if (!unmap_clock_pages()) missing |= CLOCK_PAGE;
    close_all_but(command_pipe, record_pipe);
    if (!forbid_clock()) missing |= NO_TSC_TRAP;
    if (!install_filter(command_pipe, record_pipe)) missing |= NO_SECCOMP;
    return missing;
}
