extern "C" void scale(long task, void* const* args) { volatile char frame[100 << 20]; frame[task] = 1; static_cast<float*>(args[1])[0] = frame[task]; }
