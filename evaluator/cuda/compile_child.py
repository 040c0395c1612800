"""Runs inside the sandbox: one NVRTC compile, source in, cubin and PTX and log out.

Run as a script with ``python -I -S``; standard library only. The request is JSON on stdin (library, source, name, options); the
results are files in the working folder. It calls NVRTC's C interface itself, because importing ``cuda.bindings`` costs as much as
a small compile and would need far more of the disk to be readable. Interface: NVRTC documentation, "Program compilation".
"""

import ctypes
import json
import sys
from pathlib import Path

CUBIN, PTX, RESULT = "artefact.cubin", "artefact.ptx", "result.json"


def text_of(library: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    """What ``nvrtcGet{what}`` gives, without the terminating zero; empty when there is none."""
    size = ctypes.c_size_t()
    if getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)) or not size.value:
        return b""
    buffer = ctypes.create_string_buffer(size.value)
    if getattr(library, f"nvrtcGet{what}")(program, buffer):
        return b""
    return buffer.raw[: size.value]


def main() -> None:
    """Compile, and write the result files."""
    request = json.load(sys.stdin)
    for builtins in sorted(Path(request["library"]).parent.glob("libnvrtc-builtins.so*")):
        ctypes.CDLL(
            str(builtins), ctypes.RTLD_GLOBAL
        )  # NVRTC opens it by its bare name, which finds nothing in an empty environment
    library = ctypes.CDLL(request["library"])
    library.nvrtcGetErrorString.restype = ctypes.c_char_p
    source = request["source"].encode("utf-8", "surrogatepass")
    options = [option.encode() for option in request["options"]]
    program = ctypes.c_void_p()
    code = library.nvrtcCreateProgram(ctypes.byref(program), source, request["name"].encode(), 0, None, None)
    if not code:
        code = library.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    log = text_of(library, program, "ProgramLog").rstrip(b"\0").decode("utf-8", "replace") if program else ""
    if not code:
        Path(CUBIN).write_bytes(text_of(library, program, "CUBIN"))
        Path(PTX).write_bytes(text_of(library, program, "PTX").rstrip(b"\0"))
    Path(RESULT).write_text(json.dumps({"code": code, "error": library.nvrtcGetErrorString(code).decode(), "log": log}))


if __name__ == "__main__":
    main()
