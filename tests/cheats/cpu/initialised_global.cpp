struct Early { Early() { asm volatile("nop"); } };
static Early early;
extern "C" void scale(long task, void* const* args) { static_cast<float*>(args[1])[0] = 1; }
