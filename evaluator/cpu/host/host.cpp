// Runs one candidate in one scenario. Arguments: configuration, command and record descriptors, parent's pid, library.
// Maps the buffers where the parent says, starts the threads, loads the candidate, seals the process; then obeys commands.
// Until it is sealed, an error goes to stderr with exit code 71; no code of the candidate has run by then.
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>

#include <cstdlib>

#include "report.h"

namespace {

[[noreturn]] void fail(const char* what, const char* which = "") {
    fprintf(stderr, "%s %s: %s\n", what, which, strerror(errno));
    _exit(71);
}

void read_configuration(int descriptor) {
    const off_t bytes = lseek(descriptor, 0, SEEK_END);
    auto at = static_cast<const char*>(mmap(nullptr, bytes, PROT_READ, MAP_SHARED, descriptor, 0));
    if (at == MAP_FAILED) fail("cannot map the configuration");
    const auto take = [&at]<typename T>(const T*& list, size_t count) {
        list = reinterpret_cast<const T*>(at);
        at += count * sizeof(T);
    };
    take(host.header, 1);
    if (host.header->magic != MAGIC || host.header->launches > 64) fail("the configuration is of another version");
    take(host.cores, host.header->threads);
    take(host.maps, host.header->maps);
    take(host.zeros, host.header->zeros);
    take(host.launches, host.header->launches);
    take(host.arguments, static_cast<size_t>(host.header->slots) * host.header->launches);
}

void map_at(uint64_t address, uint64_t bytes, int protection, int flags, int descriptor, uint64_t offset) {
    auto wanted = reinterpret_cast<void*>(address);
    if (mmap(wanted, bytes, protection, flags, descriptor, static_cast<off_t>(offset)) != wanted) fail("cannot map memory");
}

void map_memory() {
    const Header& header = *host.header;
    map_at(header.span_address, header.span_bytes, PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    for (uint32_t i = 0; i < header.maps; i++) {
        const Map& map = host.maps[i];
        map_at(map.address, map.bytes, map.writable ? PROT_READ | PROT_WRITE : PROT_READ,
               MAP_SHARED | MAP_FIXED | MAP_POPULATE, map.descriptor, map.offset);
    }
    for (uint32_t i = 0; i < header.threads; i++)
        map_at(host.cores[i].stack_address, host.cores[i].stack_bytes, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_POPULATE, -1, 0);
}

void report(Kind kind, uint32_t detail) {
    Record record{MAGIC, kind, host.command.sequence};
    record.detail = detail;
    host_call(SYS_write, host.record_pipe, reinterpret_cast<long>(&record), sizeof record, 0);
}

[[noreturn]] void obey() {
    report(READY, host.missing);
    for (;;) {
        const long got = host_call(SYS_read, host.command_pipe, reinterpret_cast<long>(&host.command), sizeof(Command), 0);
        if (got != sizeof(Command)) host_call(SYS_exit_group, got == 0 ? 0 : 72, 0, 0, 0);
        batch.advance();
        run_batch();
        report(DONE, 0);
    }
}

void* work(void* argument) {
    self = static_cast<Worker*>(argument);
    static char alternate[64][32768];
    stack_t stack{};
    stack.ss_sp = alternate[self->index];
    stack.ss_size = sizeof alternate[0];
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET(host.cores[self->index].core, &cores);
    if (sigaltstack(&stack, nullptr) != 0) fail("cannot set a signal stack");
    if (sched_setaffinity(0, sizeof cores, &cores) != 0) fail("cannot pin a worker to its core");
    forbid_clock();
    started.advance();
    opened.wait(0, 0);
    if (self->index == 0) obey();
    for (uint32_t seen = 0;; seen++) {
        batch.wait(seen, 0);
        run_batch();
    }
}

void start_workers() {
    static Worker workers[64];
    if (host.header->threads > 64) fail("more than 64 threads are not supported");
    for (uint32_t i = 0; i < host.header->threads; i++) {
        workers[i].index = i;
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        pthread_attr_setstack(&attributes, reinterpret_cast<void*>(host.cores[i].stack_address), host.cores[i].stack_bytes);
        pthread_t thread;
        if ((errno = pthread_create(&thread, &attributes, work, &workers[i])) != 0) fail("cannot start a worker");
    }
    for (uint32_t seen; (seen = started.value.load()) < host.header->threads;) started.wait(seen, 0);
}

void load_candidate(const char* path) {
    void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) fail("cannot load the candidate:", dlerror());
    for (uint32_t i = 0; i < host.header->launches; i++) {
        host.kernels[i] = reinterpret_cast<Kernel>(dlsym(library, host.launches[i].kernel));
        if (!host.kernels[i]) fail("the candidate does not export", host.launches[i].kernel);
    }
    link_map* map;
    if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0) fail("cannot find the candidate's text");
    dl_iterate_phdr(
        [](dl_phdr_info* info, size_t, void* base) {
            for (int i = 0; info->dlpi_addr == *static_cast<ElfW(Addr)*>(base) && i < info->dlpi_phnum; i++) {
                const auto& segment = info->dlpi_phdr[i];
                if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_X)) continue;
                host.text_begin = info->dlpi_addr + segment.p_vaddr;
                host.text_end = host.text_begin + segment.p_filesz;
            }
            return 0;
        },
        &map->l_addr);
}

// Seals a process that will run nothing, and prints what could not be sealed.
[[noreturn]] void print_missing() {
    int ends[2];
    if (pipe(ends) != 0) fail("cannot make a pipe");
    if (dup2(STDOUT_FILENO, ends[1]) < 0) fail("cannot use stdout");
    char text[16];
    const int length = snprintf(text, sizeof text, "%u\n", seal(ends[0], ends[1]));
    host_call(SYS_write, ends[1], reinterpret_cast<long>(text), length, 0);
    host_call(SYS_exit_group, 0, 0, 0, 0);
    __builtin_unreachable();
}

}  // namespace

int main(int count, char** arguments) {
    if (count == 2 && strcmp(arguments[1], "--missing") == 0) print_missing();
    if (count != 6) return 64;
    host.command_pipe = atoi(arguments[2]);
    host.record_pipe = atoi(arguments[3]);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != atoi(arguments[4])) return 0;
    read_configuration(atoi(arguments[1]));
    map_memory();
    install_reporter();
    start_workers();
    load_candidate(arguments[5]);
    host.missing = seal(host.command_pipe, host.record_pipe);
    opened.advance();
    for (;;) host_call(SYS_futex, reinterpret_cast<long>(&opened.value), 128, 1, 0);
}
