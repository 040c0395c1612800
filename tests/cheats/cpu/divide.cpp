extern "C" void scale(long task, void* const* args) { volatile int zero = 0; static_cast<int*>(args[1])[0] = 7 / zero; }
