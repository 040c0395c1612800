"""Reads a cubin's machine code through nvdisasm: how many instructions of each kind its kernels hold, and which read a clock.

nvdisasm is NVIDIA's (``nvidia-cuda-nvdisasm`` on PyPI, or a CUDA toolkit's) and parses what a candidate made, so it runs in the
compile sandbox. Names of instructions: CUDA Binary Utilities, "Instruction Set Reference"; those of the forbidden registers and
of PREEXIT were read off kernels with the PTX that makes them, on the five architectures of the tests.
"""

import functools
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from evaluator.sandbox import Limits, SandboxError, run_sandboxed, toolchain_paths

PACKAGE = "nvidia-cuda-nvdisasm"
LIMITS = Limits(cpu_s=20, wall_s=30.0, memory_bytes=4 << 30, file_bytes=256 << 20)
SYSTEM = Path("/usr/local/cuda/bin/nvdisasm")
INPUT, OUTPUT = "input.cubin", "output.sass"
SECTION = re.compile(r"^\s*\.section\s+\.text\.(?P<kernel>[\w$.]+)")
INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]+\*/\s+(?:\{\s*)?(?:@!?U?P\w+\s+)?(?P<opcode>[A-Z][\w.]*)(?P<operands>[^;]*)")
FORBIDDEN_REGISTER = re.compile(r"\bSR_(?:CLOCK|GLOBALTIMER|PM)\w*")
FORBIDDEN_OPCODE = "PREEXIT"
KINDS: Mapping[str, str] = {
    "hgmma_count": r"[HQIB]GMMA",
    "mma_count": r"[HQIBDO]MMA",
    "tcgen05_count": r"UTC\w*MMA",
    "tma_load_count": r"UTMALDG|UBLKCP",
    "tma_store_count": r"UTMASTG|UTMAREDG",
    "cp_async_count": r"LDGSTS",
    "ldmatrix_count": r"LDSM",
    "ex2_count": r"MUFU\.EX2",
    "local_load_count": r"LDL",
    "local_store_count": r"STL",
    "barrier_count": r"BAR",
    "mbarrier_count": r"SYNCS",
    "wgmma_arrive_count": r"WARPGROUP\.ARRIVE",
    "wgmma_wait_count": r"WARPGROUP\.DEPBAR",
    "shuffle_count": r"SHFL",
}
"""Fact -> the opcode that it counts, up to its first dot unless more is written."""
MATRIX = ("hgmma_count", "tcgen05_count", "mma_count")
_PATTERNS = {fact: re.compile(rf"(?:{opcode})(?:\.|$)") for fact, opcode in KINDS.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Disassembler:
    """nvdisasm's program and its version, which belongs into the key of a build that it read."""

    path: Path
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sass:
    """Instructions by kernel and opcode (with its suffixes), and what is forbidden in any of them, as the code names it."""

    kernels: Mapping[str, Mapping[str, int]]
    forbidden: tuple[str, ...]


@functools.cache
def find_disassembler() -> Disassembler | None:
    """The installed nvdisasm: that of the Python package, else one on PATH or of a CUDA toolkit; None without one."""
    try:
        package = metadata.distribution(PACKAGE)
    except metadata.PackageNotFoundError:
        found = shutil.which("nvdisasm") or (str(SYSTEM) if SYSTEM.is_file() else None)
        if found is None:
            return None
        path = Path(found).resolve()
        return Disassembler(path=path, version=f"{path.parent.parent.name} {path.stat().st_size}")
    file = next((file for file in package.files or () if file.name == "nvdisasm"), None)
    return Disassembler(path=Path(str(package.locate_file(file))).resolve(), version=package.version) if file else None


def limits_missing() -> tuple[str, ...]:
    """What can't be examined without nvdisasm, in words for ``Device.limits``; empty where it is there."""
    if find_disassembler() is not None:
        return ()
    return (f"machine code isn't examined (the PTX is): no nvdisasm here; pip install {PACKAGE}",)


def disassemble(cubin: bytes, tool: Disassembler, limits: Limits = LIMITS) -> Sass | None:
    """What nvdisasm reads in ``cubin``; None where it fails, which a cubin newer than the tool can bring about."""
    text = listing(cubin, tool, limits)
    return None if text is None else read_sass(text)


def listing(cubin: bytes, tool: Disassembler, limits: Limits = LIMITS) -> str | None:
    """nvdisasm's listing (``-c``) of ``cubin``; None where it fails."""
    with tempfile.TemporaryDirectory(prefix="askevolve-sass-") as name:
        folder = Path(name)
        (folder / INPUT).write_bytes(cubin)
        command = f'exec "$0" -c {INPUT} >{OUTPUT}'  # through a file: what a sandboxed program prints is capped
        try:
            done = run_sandboxed(
                [str(Path("/bin/sh").resolve()), "-c", command, str(tool.path)],
                readable=(tool.path, *toolchain_paths()),
                writable=folder,
                limits=limits,
            )
        except SandboxError:
            return None
        if done.returncode:
            return None
        return (folder / OUTPUT).read_text("utf-8", "replace")


def read_sass(text: str) -> Sass:
    """The instructions of nvdisasm's listing (``-c``)."""
    kernels: dict[str, Counter[str]] = {}
    forbidden: dict[str, None] = {}
    current: Counter[str] = Counter()
    for line in text.splitlines():
        if section := SECTION.match(line):
            current = kernels.setdefault(section["kernel"], Counter())
        elif found := INSTRUCTION.match(line):
            current[found["opcode"]] += 1
            if register := FORBIDDEN_REGISTER.search(found["operands"]):
                forbidden[f"{found['opcode']} {register[0]}"] = None
            if found["opcode"].startswith(FORBIDDEN_OPCODE):
                forbidden[found["opcode"]] = None
    return Sass(kernels=kernels, forbidden=tuple(forbidden))


def kind_counts(opcodes: Mapping[str, int]) -> dict[str, int]:
    """The counts of KINDS, and ``instruction_count`` of all but the padding."""
    counts = {
        fact: sum(count for opcode, count in opcodes.items() if pattern.match(opcode)) for fact, pattern in _PATTERNS.items()
    }
    return counts | {"instruction_count": sum(count for opcode, count in opcodes.items() if opcode != "NOP")}


def hot_kernel(sass: Sass) -> str:
    """The kernel with the most matrix instructions, among equals the one with the most instructions; empty without kernels."""
    counts = {name: kind_counts(opcodes) for name, opcodes in sass.kernels.items()}
    return max(
        sorted(counts),
        key=lambda name: (sum(counts[name][kind] for kind in MATRIX), counts[name]["instruction_count"]),
        default="",
    )
