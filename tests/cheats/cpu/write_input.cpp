extern "C" void scale(long task, void* const* args) { static_cast<volatile float*>(args[0])[task] = static_cast<volatile float*>(args[0])[task]; }
