extern "C" void scale(long task, void* const* args) { long result = 39; asm volatile("syscall" : "+a"(result)::"rcx", "r11", "memory"); }
