asm(".section .note.GNU-stack,\"x\",@progbits\n.text");
asm(".section hot,\"awx\",@progbits\n.quad 1\n.text");
extern "C" void scale(long task, void* const* args) { static_cast<float*>(args[1])[0] = 1; }
