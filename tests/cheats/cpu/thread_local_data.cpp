static thread_local float kept;
extern "C" void scale(long task, void* const* args) { kept += 1; static_cast<float*>(args[1])[0] = kept; }
