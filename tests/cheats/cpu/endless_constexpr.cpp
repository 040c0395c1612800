constexpr long spin() { long sum = 0; for (long i = 0; i < 1L << 40; i++) sum += i; return sum; }
constexpr long value = spin();
extern "C" void scale(long task, void* const* args) { static_cast<float*>(args[1])[0] = value; }
