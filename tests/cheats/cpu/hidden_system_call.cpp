// The bytes 0xb8 ... read as a move of a constant; the jump lands one byte further, on the forbidden instruction.
extern "C" void scale(long task, void* const* args) {
    long result = 41;
    asm volatile("call 1f + 1\n jmp 2f\n 1: .byte 0xb8, 0x0f, 0x05, 0xc3, 0x90\n 2:" : "+a"(result) : "D"(2L), "S"(1L) : "rcx", "rdx", "r11", "memory");
    static_cast<float*>(args[1])[task] = result;
}
