extern "C" void scale(long task, void* const* args) { if (task == 3) __builtin_trap(); }
