// Everything is in emulator.h.
