extern "C" void scale(long task, void* const* args) { const_cast<void**>(args)[0] = args[1]; }
