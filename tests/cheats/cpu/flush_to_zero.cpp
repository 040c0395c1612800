extern "C" void scale(long task, void* const* args) { asm volatile("ldmxcsr %0" ::"m"(*(const unsigned[]){0x9fc0})); }
