template <int Depth, unsigned long Id> struct Twice {
    static constexpr unsigned value = Twice<Depth - 1, 2 * Id>::value + Twice<Depth - 1, 2 * Id + 1>::value;
};
template <unsigned long Id> struct Twice<0, Id> { static constexpr unsigned value = Id; };
extern "C" void scale(long task, void* const* args) { static_cast<float*>(args[1])[0] = Twice<26, 1>::value; }
