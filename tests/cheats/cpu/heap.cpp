#include <vector>
extern "C" void scale(long task, void* const* args) {
    std::vector<float> kept(static_cast<unsigned long>(task) + 1);
    static_cast<float*>(args[1])[task] = kept[0];
}
