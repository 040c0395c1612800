"""Launches a CPU kernel: a shared object that was built at export, or one that this machine's g++ builds from the source."""

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import torch

from ._plan.resolved import Argument, ArgumentKind, Buffer, Resolved
from .errors import CannotRun
from .package import FOLDER
from .plans import MOST_REMEMBERED, Plans
from .signature import NAMES, TORCH_TYPES

COMPILE_S = 300
_POOL = "cpu_pool"


class CpuKernel:
    """Runs one kernel on the calling thread and a pool of ``torch.get_num_threads()`` threads, counted at the first launch.

    ``folder`` holds ``kernel.json``'s files. Every buffer that the kernel sees begins at a multiple of 64 bytes, as in the
    harness. CannotRun where nothing prebuilt fits this CPU and no g++ is here.
    """

    def __init__(self, folder: Path, kernel: dict[str, Any]) -> None:
        self._folder = folder
        self._kernel = kernel
        self._plans = Plans(folder, kernel)
        self._builds = {_key(build["defines"]): build for build in kernel["builds"]}
        self._libraries: dict[str, ctypes.CDLL] = {}
        self._ready: dict[tuple[Any, ...], tuple[Resolved, ctypes.CDLL]] = {}
        self._lock = threading.Lock()

    def launch(self, tensors: Mapping[str, torch.Tensor], values: Mapping[str, Any]) -> None:
        """Nothing; the output tensors are written when it returns. ``values`` are the task's symbols and scalars."""
        dtype = next(iter(tensors.values())).dtype
        key = (dtype, *values.values())
        ready = self._ready.get(key)
        if ready is None:
            if len(self._ready) >= MOST_REMEMBERED:
                self._ready.clear()
            ready = self._ready[key] = self._prepared(dtype, values)
        resolved, library = ready
        buffers = {**tensors, **{spec.name: _workspace(spec) for spec in resolved.workspaces}}
        pool_library, pool = _pool(os.getpid())
        for launch in resolved.launches:
            places = [_place(argument, buffers) for argument in launch.args]
            args = (ctypes.c_void_p * len(places))(*(place for place, _ in places))
            x, y, z = launch.grid
            pool_library.pool_run(ctypes.c_void_p(pool), getattr(library, launch.kernel), args, ctypes.c_long(x * y * z))

    def _prepared(self, dtype: torch.dtype, values: Mapping[str, Any]) -> tuple[Resolved, ctypes.CDLL]:
        task = self._kernel["task"]
        symbols = {name: values.get(name, NAMES.get(dtype)) for name in task["symbols"]}
        resolved = self._plans.at(symbols, {name: float(values[name]) for name in task["scalars"]})
        key = _key(resolved.defines)
        with self._lock:
            if key not in self._libraries:
                self._libraries[key] = self._load(key)
            return resolved, self._libraries[key]

    def _load(self, key: str) -> ctypes.CDLL:
        build = self._builds.get(key)
        if build is None:
            raise CannotRun("the harness never built the kernel for this call", key, "Use one of the sizes of `domain.json`.")
        if _cpu_has(build["cpu_flags"]):
            return _opened(self._folder / build["file"], build["sha256"])
        return ctypes.CDLL(str(_compiled(self._folder / self._kernel["source"], build["compile"])))


def _key(defines: Mapping[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in sorted(defines.items()))


def _workspace(spec: Buffer) -> torch.Tensor:
    make = torch.zeros if spec.init == "zero" or spec.self_resetting else torch.empty
    return make(spec.shape, dtype=TORCH_TYPES[spec.dtype])


def _place(argument: Argument, buffers: Mapping[str, torch.Tensor]) -> tuple[int, object]:
    """The address of an argument, and what must live as long as the call."""
    if argument.kind is ArgumentKind.INT32:
        number = ctypes.c_int32(int(argument.value or 0))
        return ctypes.addressof(number), number
    if argument.kind is ArgumentKind.FLOAT32:
        real = ctypes.c_float(float(argument.value or 0.0))
        return ctypes.addressof(real), real
    tensor = buffers[argument.name]
    return tensor.data_ptr(), tensor


@cache
def _flags_here() -> frozenset[str]:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return frozenset()
    return frozenset(next((line.partition(":")[2] for line in text.splitlines() if line.startswith("flags")), "").split())


def _cpu_has(needed: list[str]) -> bool:
    """Whether this CPU has every feature of the one that a library was built on; else running it would end the process."""
    return set(needed) <= _flags_here()


def _opened(path: Path, sha256: str) -> ctypes.CDLL:
    try:
        if hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
            raise CannotRun(f"{path.name} isn't the library that was exported", str(path), "Install the package again.")
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise CannotRun(f"{path.name} can't be loaded: {error}", str(path), "Install the package again.") from None


def _compiled(source: Path, flags: list[str]) -> Path:
    """The library in the user's cache, built there if need be with -march=native."""
    compiler = shutil.which("g++")
    if compiler is None:
        raise CannotRun(
            f"{source.name} was built for another CPU, and there is no compiler to build it for this one",
            "g++ isn't on the PATH",
            "Install g++ (Debian: apt install g++), or use torch's own operator here.",
        )
    digest = hashlib.sha256("\0".join([source.read_text(), *flags, *sorted(_flags_here())]).encode()).hexdigest()
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "askevolve-exported"
    except RuntimeError as error:
        raise CannotRun(f"{source.name} can't be built: {error}", "no home folder", "Set HOME or XDG_CACHE_HOME.") from None
    target = folder / f"{digest[:32]}.so"
    if target.is_file():
        return target
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as place:
            made = Path(place) / "kernel.so"
            argv = [compiler, *flags, str(source), "-lm", "-lc", "-lgcc", "-o", str(made)]
            done = subprocess.run(argv, capture_output=True, text=True, timeout=COMPILE_S, check=False)
            if done.returncode != 0:
                raise CannotRun(
                    f"g++ refused {source.name}: {done.stderr.strip()[:400]}",
                    compiler,
                    "Use a g++ of the version in `provenance.json`.",
                )
            made.replace(target)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotRun(f"{source.name} can't be built: {error}", str(folder), "Make the folder writable.") from None
    return target


@cache
def _pool(process: int) -> tuple[ctypes.CDLL, int]:
    """The pool of this process: a forked child has none of its parent's threads and makes its own."""
    path = FOLDER / f"{_POOL}.so"
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise CannotRun(f"the thread pool can't be loaded: {error}", str(path), "Use the package on x86-64 Linux.") from None
    library.pool_new.restype = ctypes.c_void_p
    return library, library.pool_new(torch.get_num_threads())
