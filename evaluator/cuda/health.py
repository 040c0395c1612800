"""Whether a GPU still works, found out in a new process, since a sick one can hang or kill whoever asks.

``python -m evaluator.cuda.health ORDINAL`` makes a context, fills and copies memory, runs one small kernel, reads the result back
and prints what the driver is able to do as JSON. It changes no setting.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from evaluator.warm import python_environment

TIMEOUT_S = 30.0
FORGET_S = 5.0
WORDS = 1 << 16
BLOCK = 256
PATTERN = 0x5EED1234
FACTOR = 2654435761
KERNEL = b"scale"
NO_PTX = ("CUDA_ERROR_JIT_COMPILER_NOT_FOUND", "CUDA_ERROR_JIT_COMPILATION_DISABLED")
PTX = b"""
.version 6.3
.target sm_75
.address_size 64
.visible .entry scale(.param .u64 words, .param .u32 factor)
{
    .reg .b32 %r<8>;
    .reg .b64 %d<5>;
    ld.param.u64 %d1, [words];
    ld.param.u32 %r1, [factor];
    cvta.to.global.u64 %d2, %d1;
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    mul.wide.u32 %d3, %r5, 4;
    add.s64 %d4, %d2, %d3;
    ld.global.u32 %r6, [%d4];
    mad.lo.s32 %r7, %r5, %r1, %r6;
    st.global.u32 [%d4], %r7;
    ret;
}
"""
"""words[i] += i * factor, in 32-bit arithmetic. PTX, so that every driver can compile it for its GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """What the probe found: ``problem`` is None for a GPU that works; ``abilities`` are what the driver showed that it can do.

    ``virtual_memory``: mapping between unmapped pages; ``shared_files``: exporting such memory as file descriptors;
    ``read_only``: mapping it read-only; ``ipc``: exporting ordinary memory.
    """

    problem: str | None
    abilities: Mapping[str, bool] = field(default_factory=dict)

    @property
    def full(self) -> bool:
        """Whether the problem is only that others hold all of the GPU's memory."""
        return self.problem is not None and "OUT_OF_MEMORY" in self.problem


def probe(ordinal: int, timeout_s: float = TIMEOUT_S, module: str = "evaluator.cuda.health") -> Health:
    """The health of the GPU with that number among those this process may use."""
    process = subprocess.Popen(
        (sys.executable, "-m", module, str(ordinal)),
        env=python_environment(),
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        printed, complaint = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):  # a hung driver may not let it go
            process.communicate(timeout=FORGET_S)
        return Health(problem=f"a small copy and kernel were not done after {timeout_s:g} s")
    if process.returncode != 0:
        lines = complaint.decode("utf-8", "replace").strip().splitlines()
        return Health(problem=f"a small copy and kernel failed: {lines[-1] if lines else f'exit status {process.returncode}'}")
    return Health(problem=None, abilities=json.loads(printed))


def examine(ordinal: int) -> dict[str, bool]:
    """The abilities of a GPU that works, by using it from this process. Raises CudaError or RuntimeError for one that doesn't."""
    from evaluator.cuda.driver import call, use_device

    use_device(ordinal)
    first, second = (int(call("cuMemAlloc", 4 * WORDS)) for _ in range(2))
    call("cuMemsetD32", first, PATTERN, WORDS)
    call("cuMemcpyDtoD", second, first, 4 * WORDS)
    factor = FACTOR if _launch(second) else 0
    back = bytearray(4 * WORDS)
    call("cuMemcpyDtoH", back, second, 4 * WORDS)
    words = memoryview(back).cast("I")
    wrong = next((i for i, word in enumerate(words) if word != (PATTERN + i * factor) % 2**32), None)
    if wrong is not None:
        raise RuntimeError(f"word {wrong} of a memory test is {words[wrong]:#x}, not {(PATTERN + wrong * factor) % 2**32:#x}")
    abilities = {**_mapping(ordinal), "ipc": _works(lambda: call("cuIpcGetMemHandle", first))}
    for pointer in (first, second):
        call("cuMemFree", pointer)
    return abilities


def _launch(words: int) -> bool:
    """Run the kernel; False where this installation of the driver doesn't compile PTX, which candidates don't need."""
    import ctypes

    from evaluator.cuda.driver import CudaError, call

    try:
        module = call("cuModuleLoadData", PTX + b"\0")
    except CudaError as error:
        if error.name in NO_PTX:
            return False
        raise
    kernel = call("cuModuleGetFunction", module, KERNEL)
    arguments = ((words, FACTOR), (ctypes.c_uint64, ctypes.c_uint32))
    call("cuLaunchKernel", kernel, WORDS // BLOCK, 1, 1, BLOCK, 1, 1, 0, 0, arguments, 0)
    call("cuCtxSynchronize")
    return True


def _mapping(ordinal: int) -> dict[str, bool]:
    """What can be done with memory that is mapped between pages, tried with one granule."""
    from evaluator.cuda.allocations import Pool
    from evaluator.cuda.driver import CudaError
    from evaluator.cuda.mapping import access, map_guarded, unmap_guarded

    pool = Pool(ordinal)
    if pool.guard != "pages":
        return {"virtual_memory": False, "shared_files": False, "read_only": False}
    step = pool.granularity_bytes
    granule = pool.take(step)
    try:
        unmap_guarded(map_guarded(granule.handle, step, step, access(ordinal, writable=False)))
        read_only = True
    except CudaError:
        read_only = False
    pool.give(granule)
    pool.close()
    return {"virtual_memory": True, "shared_files": True, "read_only": read_only}


def _works(function: Callable[[], object]) -> bool:
    from evaluator.cuda.driver import CudaError

    try:
        function()
    except CudaError:
        return False
    return True


if __name__ == "__main__":
    print(json.dumps(examine(int(sys.argv[1]))))
