"""What a GPU is, and a ceiling of what it could do, from its multiprocessors and clocks. Asks the driver, makes no context."""

import importlib.metadata
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from evaluator.cuda import sass
from evaluator.cuda.toolkit import find_toolkit
from evaluator.outcome import Device
from evaluator.sandbox import limits_missing

TENSOR_FLOP_PER_CYCLE = {80: 2048, 86: 1024, 87: 2048, 89: 1024, 90: 4096, 100: 8192, 103: 8192, 110: 8192, 120: 1024, 121: 1024}
"""Dense 16-bit tensor-core FLOP of one multiprocessor and cycle: data sheets' peak over multiprocessors and boost clock (A100
312, L40S 362, H200 989, B200 2250, RTX PRO 6000 504 TFLOP/s)."""
UNKNOWN_FLOP_PER_CYCLE = max(TENSOR_FLOP_PER_CYCLE.values())
UNKNOWN_CLOCK_KHZ = 3_000_000
UNKNOWN_GBS = 10_000.0
SUFFIXED = (90, 100, 103, 110, 120, 121)  # architectures whose own instructions need the suffix "a"
DRIVER = Path("/proc/driver/nvidia/version")
PACKAGES = ("torch", "cupy-cuda13x", "cuda-bindings", "nvidia-cudnn-cu13")


class NoGpuError(RuntimeError):
    """There is no usable GPU; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU as the driver describes it: clocks are the highest ones in kHz, ``shared_bytes`` is the most one block may have."""

    ordinal: int
    uuid: str
    name: str
    capability: int
    sm_count: int
    shared_bytes: int
    memory_bytes: int
    clock_khz: int
    memory_clock_khz: int
    bus_bits: int
    driver_api: str

    @property
    def arch(self) -> str:
        """The architecture to compile for, such as "sm_90a"."""
        return f"sm_{self.capability}{'a' if self.capability in SUFFIXED else ''}"

    @property
    def facts(self) -> Mapping[str, int]:
        """What plan expressions may use."""
        return {"sm_count": self.sm_count, "shared_limit": self.shared_bytes}

    @property
    def peak_tflops(self) -> float:
        """A ceiling of 16-bit tensor-core TFLOP/s: every multiprocessor at the highest clock that the driver names."""
        per_cycle = TENSOR_FLOP_PER_CYCLE.get(self.capability, UNKNOWN_FLOP_PER_CYCLE)
        return self.sm_count * per_cycle * (self.clock_khz or UNKNOWN_CLOCK_KHZ) * 1e-9

    @property
    def peak_gbs(self) -> float:
        """The memory's bandwidth in GB/s: two transfers a cycle over the whole bus."""
        return 2 * self.memory_clock_khz * (self.bus_bits / 8) * 1e-6 or UNKNOWN_GBS


def find_gpus() -> tuple[Gpu, ...]:
    """The GPUs that this process may use, in CUDA's order. Raises NoGpuError."""
    try:
        from evaluator.cuda.driver import call
    except ImportError as error:
        if not DRIVER.exists():
            raise NoGpuError("this host has no NVIDIA driver") from None
        raise NoGpuError(f"cuda-bindings isn't installed ({error}): pip install 'askevolve[cuda]'") from None
    try:
        call("cuInit", 0)
        version = int(call("cuDriverGetVersion"))
        count = int(call("cuDeviceGetCount"))
        return tuple(_describe(ordinal, f"{version // 1000}.{version % 1000 // 10}") for ordinal in range(count))
    except RuntimeError as error:  # a CudaError, or the bindings found no libcuda
        raise NoGpuError(f"no CUDA driver answers: {error}") from None


def find_gpu(ordinal: int) -> Gpu:
    """The GPU with that number among those this process may use. Raises NoGpuError."""
    gpus = find_gpus()
    if not 0 <= ordinal < len(gpus):
        raise NoGpuError(f"there is no GPU {ordinal}: this process may use {len(gpus)} (CUDA_VISIBLE_DEVICES limits them)")
    return gpus[ordinal]


def describe_device(gpu: Gpu, abilities: Mapping[str, bool], watched: bool) -> Device:
    """The device as stored with every result; ``abilities`` are those of its health probe, ``watched``: NVML is read."""
    return Device(
        kind="cuda",
        name=gpu.name,
        arch=gpu.arch,
        cores=gpu.sm_count,
        peak_tflops=gpu.peak_tflops,
        peak_gbs=gpu.peak_gbs,
        versions={"driver": driver_version(), "CUDA driver API": gpu.driver_api, **_packages()},
        limits=(*limits_missing(), *sass.limits_missing(), *_missing(abilities, watched)),
    )


def driver_version(path: Path = DRIVER) -> str:
    """The version of the kernel driver, "unknown" where the kernel doesn't show it."""
    try:
        found = re.search(r"\s(\d+\.\d+(?:\.\d+)?)\s", path.read_text())
    except OSError:
        return "unknown"
    return found[1] if found else "unknown"


def _missing(abilities: Mapping[str, bool], watched: bool) -> tuple[str, ...]:
    missing = []
    if not (abilities["virtual_memory"] and abilities["shared_files"]):
        missing.append("unmapped pages around buffers: the driver doesn't share virtual memory, so writes beside them show later")
    if not abilities["read_only"]:
        missing.append("read-only inputs: the driver maps them writable, so a write into them shows afterwards")
    if not watched:
        missing.append("watching clocks and other processes on the GPU: pip install nvidia-ml-py")
    return tuple(missing)


def _packages() -> dict[str, str]:
    """Versions of what compiles and runs, by distribution name."""
    toolkit = find_toolkit()
    versions = {"nvrtc": toolkit.version if toolkit else "not installed"}
    for name in PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "not installed"
    return versions


def _describe(ordinal: int, driver_api: str) -> Gpu:
    from evaluator.cuda.driver import CudaError, attribute, call

    def known(name: str) -> int:
        """The attribute, 0 where this driver doesn't know it."""
        try:
            return attribute(name, ordinal)
        except CudaError:
            return 0

    device = call("cuDeviceGet", ordinal)
    return Gpu(
        ordinal=ordinal,
        uuid=f"GPU-{uuid.UUID(bytes=bytes(call('cuDeviceGetUuid', device).bytes))}",
        name=call("cuDeviceGetName", 256, device).split(b"\0")[0].decode(),
        capability=10 * attribute("COMPUTE_CAPABILITY_MAJOR", ordinal) + attribute("COMPUTE_CAPABILITY_MINOR", ordinal),
        sm_count=attribute("MULTIPROCESSOR_COUNT", ordinal),
        shared_bytes=attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN", ordinal),
        memory_bytes=int(call("cuDeviceTotalMem", device)),
        clock_khz=known("CLOCK_RATE"),
        memory_clock_khz=known("MEMORY_CLOCK_RATE"),
        bus_bits=known("GLOBAL_MEMORY_BUS_WIDTH"),
        driver_api=driver_api,
    )
