extern "C" void scale(long task, void* const* args) { *reinterpret_cast<volatile float*>(0x12345678) = 1; }
