extern "C" void scale(long task, void* const* args) { reinterpret_cast<void (*)()>(task - task)(); }
