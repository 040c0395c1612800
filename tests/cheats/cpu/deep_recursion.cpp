__attribute__((noinline, optimize("O0"))) static int deeper(int depth) { volatile char frame[4096]; frame[0] = depth; return deeper(depth + 1) + frame[0]; }
extern "C" void scale(long task, void* const* args) { static_cast<float*>(args[1])[0] = deeper(0); }
