"""Executes one program once, in a process of its own, so that a tool such as compute-sanitizer can watch every access.

``python -m evaluator.cuda.replay FILE``: the file is a pickled ``Replay`` of our own parent. Every buffer is an allocation of
exactly its size, which is what memcheck needs to see an access one element too far. Exit status 0: executed; 1: the driver
refused or the kernel failed, with the reason on standard error.
"""

import pickle
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evaluator.backend import Array
from evaluator.cuda.driver import CudaError, call, use_device
from evaluator.cuda.launches import configuration, pack, prepare_function
from evaluator.cuda.tensor_maps import encode
from evaluator.plan.resolve import buffer_bytes
from evaluator.plan.resolved import Argument, ArgumentKind, Buffer, Resolved, ResolvedLaunch

POISON = 0xFF  # reads as NaN in every floating-point type


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """A compiled plan in one scenario with its inputs as host arrays by name, and the GPU to run it on."""

    cubin: bytes
    resolved: Resolved
    inputs: Mapping[str, Array]
    ordinal: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A plan ready to run on the default stream: its launches in order, and what to do before each execution."""

    launches: Sequence[Callable[[], None]]
    clear: Callable[[], None]


def load(replay: Replay) -> Loaded:
    """Make the context, allocate and fill every buffer, load the module. Raises CudaError."""
    use_device(replay.ordinal)
    resolved = replay.resolved
    module = call("cuModuleLoadData", replay.cubin)
    pointers = {buffer.name: _allocate(buffer, replay.inputs) for buffer in (*resolved.tensors, *resolved.workspaces)}
    maps = {each.name: encode(each, pointers[each.tensor]) for each in resolved.tensor_maps}

    def value_of(argument: Argument) -> int | float | bytes:
        if argument.kind is ArgumentKind.TENSOR_MAP:
            return maps[argument.name]
        return pointers[argument.name] if argument.value is None else argument.value

    def ready(launch: ResolvedLaunch) -> Callable[[], None]:
        same = [other for other in resolved.launches if other.kernel == launch.kernel]
        function = prepare_function(module, launch.kernel, same)
        config = configuration(launch, 0, fixed_cluster=function.fixed_cluster)
        packed = pack(launch.args, value_of)
        return lambda: call("cuLaunchKernelEx", config, function.handle, packed.address, 0)

    def clear() -> None:
        for each in resolved.workspaces:
            if each.init == "zero" and not each.self_resetting:
                call("cuMemsetD8Async", pointers[each.name], 0, buffer_bytes(each), 0)

    return Loaded(launches=[ready(launch) for launch in resolved.launches], clear=clear)


def execute(replay: Replay) -> None:
    """Run every launch once, waiting for each. Raises CudaError."""
    for launch in load(replay).launches:
        launch()
        call("cuCtxSynchronize")


def _allocate(buffer: Buffer, inputs: Mapping[str, Array]) -> int:
    """The address of the buffer's own allocation: an input's contents, zeros where the plan wants them, else poison."""
    size = buffer_bytes(buffer)
    pointer = int(call("cuMemAlloc", max(size, 1)))
    if buffer.role == "input":
        content = np.ascontiguousarray(inputs[buffer.name])
        call("cuMemcpyHtoD", pointer, content.ctypes.data, size)
    else:
        call("cuMemsetD8", pointer, 0 if buffer.init == "zero" else POISON, size)
    return pointer


def main(arguments: Sequence[str]) -> int:
    """The exit status."""
    replay: Any = pickle.loads(Path(arguments[0]).read_bytes())  # written by our own parent
    try:
        execute(replay)
    except CudaError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
