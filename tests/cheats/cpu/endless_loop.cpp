extern "C" void scale(long task, void* const* args) { for (volatile long i = 0;; i = i + 1) {} }
