"""A compiled candidate's loops as text, by objdump in the sandbox: it parses what a candidate made."""

import shutil
import tempfile
from pathlib import Path

from evaluator.loops import loop_text, read_objdump
from evaluator.sandbox import Limits, SandboxError, run_sandboxed, toolchain_paths

LIMITS = Limits(cpu_s=20, wall_s=30.0, memory_bytes=2 << 30, file_bytes=64 << 20)
LIBRARY, LISTING = "candidate.so", "listing.txt"


def listing_of(library: Path) -> str:
    """The innermost loops of a shared object; empty where there is no objdump, it fails, or the code has no loop."""
    objdump = shutil.which("objdump")
    if objdump is None:
        return ""
    with tempfile.TemporaryDirectory(prefix="askevolve-") as name:
        folder = Path(name)
        shutil.copyfile(library, folder / LIBRARY)
        command = f'exec "$0" --disassemble --no-show-raw-insn --wide -M intel {LIBRARY} >{LISTING}'
        argv = [str(Path("/bin/sh").resolve()), "-c", command, objdump]
        try:
            done = run_sandboxed(argv, readable=toolchain_paths(), writable=folder, limits=LIMITS)
        except SandboxError:
            return ""
        if done.returncode:
            return ""
        return loop_text(read_objdump((folder / LISTING).read_text("utf-8", "replace")))
