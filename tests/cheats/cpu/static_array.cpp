static float big[1 << 28];
extern "C" void scale(long task, void* const* args) { big[task] = 1; static_cast<float*>(args[1])[0] = big[task * 3]; }
