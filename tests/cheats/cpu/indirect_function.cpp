extern "C" void one() {}
extern "C" void (*choose())() { return one; }
extern "C" void indirect() __attribute__((ifunc("choose")));
extern "C" void scale(long task, void* const* args) { indirect(); }
