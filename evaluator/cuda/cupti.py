"""Kernel times as CUPTI records them: start and end of each kernel of this process, by the device's own time stamps.

CUPTI is the library under NVIDIA's profilers; its activity records need no rights to performance counters. Names and layouts:
"CUPTI Activity API" reference; the first fields of a kernel's record have stood at the same places from
CUpti_ActivityKernel9 (CUDA 12) to CUpti_ActivityKernel13 (CUDA 13.5).
"""

import ctypes
import struct
from importlib import metadata
from pathlib import Path
from typing import Any

CONCURRENT_KERNEL = 10
FLUSH_FORCED = 1
BUFFER_BYTES = 1 << 20
ALIGN_BYTES = 8
HEAD = struct.Struct("<i12xQQ")  # kind, then cache and register fields, start and end (ns)
PACKAGES = ("nvidia-cuda-cupti", "nvidia-cuda-cupti-cu13")
SYSTEM = (Path("/usr/local/cuda/extras/CUPTI/lib64"), Path("/usr/local/cuda/lib64"))

_REQUESTED = ctypes.CFUNCTYPE(
    None, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_size_t)
)
_COMPLETED = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)


class CuptiError(RuntimeError):
    """CUPTI refused a call."""


def find_cupti() -> Path | None:
    """CUPTI's library, of an installed package or of the system's CUDA toolkit; None without one."""
    for name in PACKAGES:
        try:
            files = metadata.files(name) or []
        except metadata.PackageNotFoundError:
            continue
        for file in files:
            if file.name.startswith("libcupti.so"):
                return Path(str(file.locate()))
    return next((found for folder in SYSTEM for found in sorted(folder.glob("libcupti.so*"))), None)


class KernelRecorder:
    """Records the kernels of this process from now on; best made before the first context. Raises OSError, CuptiError."""

    def __init__(self, library: Path) -> None:
        self._cupti = ctypes.CDLL(str(library))
        self._buffers: dict[int, ctypes.Array[ctypes.c_char]] = {}
        self._times_ns: list[tuple[int, int]] = []
        self._callbacks = (_REQUESTED(self._request), _COMPLETED(self._complete))  # CUPTI keeps only their addresses
        self._call("cuptiActivityRegisterCallbacks", *self._callbacks)
        self._call("cuptiActivityEnable", ctypes.c_int(CONCURRENT_KERNEL))

    def times_ns(self) -> list[tuple[int, int]]:
        """Start and end of every kernel that has ended, in the order of their starts; the device must be idle."""
        self._call("cuptiActivityFlushAll", ctypes.c_uint32(FLUSH_FORCED))
        return sorted(self._times_ns)

    def _request(self, buffer: Any, size: Any, most: Any) -> None:
        memory = ctypes.create_string_buffer(BUFFER_BYTES + ALIGN_BYTES)
        address = -(-ctypes.addressof(memory) // ALIGN_BYTES) * ALIGN_BYTES
        self._buffers[address] = memory
        buffer[0], size[0] = ctypes.c_void_p(address), ctypes.c_size_t(BUFFER_BYTES)
        most[0] = ctypes.c_size_t(0)  # as many records as fit

    def _complete(self, context: int | None, stream: int, buffer: int, size: int, valid: int) -> None:
        record = ctypes.c_void_p()
        following = self._cupti.cuptiActivityGetNextRecord
        while following(ctypes.c_void_p(buffer), ctypes.c_size_t(valid), ctypes.byref(record)) == 0 and record.value:
            kind, start_ns, end_ns = HEAD.unpack(ctypes.string_at(record.value, HEAD.size))
            if kind == CONCURRENT_KERNEL:
                self._times_ns.append((start_ns, end_ns))
        self._buffers.pop(buffer, None)

    def _call(self, function: str, *arguments: object) -> None:
        status = getattr(self._cupti, function)(*arguments)
        if status != 0:
            raise CuptiError(f"{function} failed with CUptiResult {status}")
