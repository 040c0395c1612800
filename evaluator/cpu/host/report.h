// Turns a fault of the candidate into one record for the parent. The parent treats it as the candidate's own word: it can
// make a verdict worse, never better.
#pragma once
#include <csignal>
#include <ucontext.h>

#include "workers.h"

inline void report_signal(int signal, siginfo_t* info, void* context) {
    const auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
    Record record{MAGIC, SIGNAL, host.command.sequence};
    record.signal = signal;
    record.code = info->si_code;
    record.instruction = static_cast<uint64_t>(registers[REG_RIP]);
    if (self) {
        record.thread = self->index;
        record.launch = self->launch;
        record.task = self->task;
    }
    if (signal == SIGSYS) {
        record.detail = static_cast<uint32_t>(info->si_syscall);
    } else {
        record.address = reinterpret_cast<uint64_t>(info->si_addr);
        record.wrote = registers[REG_TRAPNO] == 14 && (registers[REG_ERR] & 2) != 0;  // page fault by a write
    }
    for (uint64_t at = record.instruction, i = 0; i < sizeof record.bytes; i++)
        if (at + i >= host.text_begin && at + i < host.text_end) record.bytes[i] = *reinterpret_cast<uint8_t*>(at + i);
    host_call(SYS_write, host.record_pipe, reinterpret_cast<long>(&record), sizeof record, 0);
    host_call(SYS_exit_group, 70, 0, 0, 0);
}

inline void install_reporter() {
    struct sigaction action {};
    action.sa_sigaction = report_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigfillset(&action.sa_mask);
    for (int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS}) sigaction(signal, &action, nullptr);
}
