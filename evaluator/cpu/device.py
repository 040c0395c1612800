"""What the CPU is, and a ceiling of what it could do, from its instruction set and clock."""

import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from evaluator.cpu.build import compiler_version
from evaluator.cpu.memory import forbid_new_writers
from evaluator.outcome import Device
from evaluator.sandbox import limits_missing

HIGHEST_GHZ = 5.0
FLOP_PER_CYCLE = (("amx_bf16", 2048), ("amx_tile", 2048), ("avx512_bf16", 128), ("avx512f", 64), ("fma", 32), ("avx", 16))
SSE_FLOP_PER_CYCLE = 8
CACHE_BYTES_PER_CYCLE = 128
PROTECTIONS = {
    1: "system calls of a running candidate: seccomp isn't available",
    2: "clock reads by instruction: PR_SET_TSC isn't available",
    4: "clock reads from memory: the kernel's clock page can't be unmapped",
}


def describe_device(threads: int, host: Path) -> Device:
    """The device as stored with every result; ``host`` is the compiled host process, asked what this machine can't enforce.

    The peaks are ceilings, since a physics floor must never blame an honest kernel: two full-width FMA units of each core
    at 5 GHz or the clock that the kernel reports, whichever is higher; twice that for bf16 dot products, AMX where present.
    Bytes: two 64-byte loads per core and cycle from the first-level cache, as small scenarios stay in caches.
    """
    information = Path("/proc/cpuinfo").read_text()
    flags = set(_field(information, "flags").split())
    per_cycle = next((flop for name, flop in FLOP_PER_CYCLE if name in flags), SSE_FLOP_PER_CYCLE)
    ghz = max([HIGHEST_GHZ, *(float(mhz) / 1000 for mhz in re.findall(r"cpu MHz\s*:\s*([\d.]+)", information))])
    return Device(
        kind="cpu",
        name=_name(information),
        arch=_arch(flags),
        cores=threads,
        peak_tflops=threads * per_cycle * ghz / 1000,
        peak_gbs=threads * CACHE_BYTES_PER_CYCLE * ghz,
        versions=_versions(),
        limits=(*limits_missing(), *_missing(host)),
    )


def name_and_arch() -> tuple[str, str]:
    """The CPU's name and architecture, as ``describe_device`` gives them."""
    information = Path("/proc/cpuinfo").read_text()
    return _name(information), _arch(set(_field(information, "flags").split()))


def _name(information: str) -> str:
    return _field(information, "model name") or platform.processor() or "unknown"


def _field(information: str, name: str) -> str:
    found = re.search(rf"^{name}\s*:\s*(.*)$", information, re.MULTILINE)
    return found.group(1).strip() if found else ""


def _arch(flags: set[str]) -> str:
    level = next((name for name in ("avx512f", "avx2", "avx") if name in flags), "sse2")
    return f"{platform.machine()}-{level}"


def _versions() -> dict[str, str]:
    versions = {"g++": compiler_version(), "kernel": platform.release()}
    try:
        versions["torch"] = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        versions["torch"] = "not installed"
    return versions


def _missing(host: Path) -> tuple[str, ...]:
    done = subprocess.run([host, "--missing"], capture_output=True, text=True, check=True, env={})
    bits = int(done.stdout)
    missing = [text for bit, text in PROTECTIONS.items() if bits & bit]
    if shutil.which("objdump") is None:
        missing.append("forbidden instructions are found when they run, not before: objdump isn't installed")
    probe = os.memfd_create("probe", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    if not forbid_new_writers(probe):
        missing.append("sealing of inputs: they are mapped read-only, but the kernel can't forbid other mappings")
    os.close(probe)
    return tuple(missing)


def choose_cores(threads: int) -> Sequence[int]:
    """One core per thread, of those this process may use; cores repeat if there are fewer."""
    usable = sorted(os.sched_getaffinity(0))
    return [usable[number % len(usable)] for number in range(threads)]
