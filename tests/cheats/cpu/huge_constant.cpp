extern const float table[1 << 28];
const float table[1 << 28] = {1};
extern "C" void scale(long task, void* const* args) { static_cast<float*>(args[1])[task] = table[task]; }
