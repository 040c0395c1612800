"""One candidate in one scenario, ready to run in this process: mapped buffers, loaded module, one graph for each slot."""

import contextlib
import ctypes
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evaluator.cuda.driver import CudaError, api, call
from evaluator.cuda.launches import Function, Packed, configuration, launch_facts, pack, prepare_function
from evaluator.cuda.mapping import Mapped, map_shares
from evaluator.cuda.stopwatch import Stopwatch
from evaluator.cuda.tensor_maps import encode
from evaluator.plan.resolved import Argument, ArgumentKind, ResolvedLaunch, TensorMap

CAPTURE_REFUSED = frozenset({801, *range(900, 909)})
"""CUDA_ERROR_NOT_SUPPORTED and the CUDA_ERROR_STREAM_CAPTURE_ family: what a graph can't hold is launched one by one instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What to load: a cubin and the parts of the plan that its process needs.

    ``zeros`` are workspaces to clear before each execution, with their bytes; ``constants`` the names of constant tables.
    """

    cubin: bytes
    slots: int
    launches: tuple[ResolvedLaunch, ...]
    tensor_maps: tuple[TensorMap, ...]
    zeros: tuple[tuple[str, int], ...]
    constants: tuple[str, ...]


class Execution:
    """Loads and captures in its constructor. Every method raises CudaError; after one that isn't a refusal all is lost."""

    def __init__(
        self, work: Work, shares: Sequence[Mapping[str, Any]], fds: Sequence[int], ordinal: int, *, writable_inputs: bool
    ) -> None:
        self._work = work
        self._stream = call("cuStreamCreate", api.CUstream_flags.CU_STREAM_NON_BLOCKING)
        self._mapped: Mapped = map_shares(shares, fds, writable_inputs=writable_inputs)
        self._module = call("cuModuleLoadData", work.cubin)
        self._functions = self._prepare()
        self._configs = [
            configuration(launch, self._stream, fixed_cluster=function.fixed_cluster)
            for launch, function in zip(work.launches, self._functions, strict=True)
        ]
        self._packed = [self._pack(slot) for slot in range(work.slots)]
        self._watch = Stopwatch(work.slots, ordinal)
        self._graphs: list[Any] = []
        try:
            self._graphs += [self._capture(slot) for slot in range(work.slots)]
        except CudaError as error:
            if error.code not in CAPTURE_REFUSED:
                raise
        self._digest = self.constants_digest()

    def report(self) -> dict[str, Any]:
        """What the parent wants to know after loading."""
        facts = {
            launch.kernel: launch_facts(function, launch)
            for launch, function in zip(self._work.launches, self._functions, strict=True)
        }
        return {"facts": facts, "read_only": self._mapped.read_only, "graphs": bool(self._graphs)}

    def run(self, slots: Sequence[int]) -> list[float]:
        """Execute the plan once in each slot; device time of each in us, by the slot's own pair of events."""
        for slot in slots:
            if self._graphs:
                call("cuGraphLaunch", self._graphs[slot], self._stream)
            else:
                self._enqueue(slot, capturing=False)
        call("cuStreamSynchronize", self._stream)
        return [self._watch.elapsed_us(slot) for slot in slots]

    def step(self, slot: int) -> None:
        """Execute the plan in a slot launch by launch, waiting for each, so that an error names its launch."""
        self._clear(slot)
        for index in range(len(self._work.launches)):
            self._launch(slot, index)
            with _at(index):
                call("cuStreamSynchronize", self._stream)

    def constants_digest(self) -> str:
        """A hash over the module's constant tables as they are now."""
        digest = hashlib.sha256()
        for name in self._work.constants:
            try:
                pointer, size = call("cuModuleGetGlobal", self._module, name.encode())
            except CudaError:  # the driver doesn't show this one
                continue
            content = ctypes.create_string_buffer(int(size))
            call("cuMemcpyDtoH", ctypes.addressof(content), pointer, int(size))
            digest.update(content.raw)
        return digest.hexdigest()

    def constants_intact(self) -> bool:
        """Whether the constant tables are as they were loaded."""
        return self.constants_digest() == self._digest

    def close(self) -> None:
        """Free everything, so that another scenario can be loaded."""
        call("cuStreamSynchronize", self._stream)
        while self._graphs:
            call("cuGraphExecDestroy", self._graphs.pop())
        self._watch.close()
        call("cuModuleUnload", self._module)
        self._mapped.close()
        call("cuStreamDestroy", self._stream)

    def _prepare(self) -> list[Function]:
        ready: dict[str, Function] = {}
        for index, launch in enumerate(self._work.launches):
            if launch.kernel not in ready:
                same = [other for other in self._work.launches if other.kernel == launch.kernel]
                with _at(index):
                    ready[launch.kernel] = prepare_function(self._module, launch.kernel, same)
        return [ready[launch.kernel] for launch in self._work.launches]

    def _pack(self, slot: int) -> list[Packed]:
        maps = {each.name: encode(each, self._mapped.pointer(slot, each.tensor)) for each in self._work.tensor_maps}

        def value_of(argument: Argument) -> int | float | bytes:
            if argument.kind is ArgumentKind.TENSOR_MAP:
                return maps[argument.name]
            if argument.value is not None:
                return argument.value
            return self._mapped.pointer(slot, argument.name)

        return [pack(launch.args, value_of) for launch in self._work.launches]

    def _capture(self, slot: int) -> Any:
        """The slot's graph, instantiated and uploaded."""
        call("cuStreamBeginCapture", self._stream, api.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED)
        try:
            self._enqueue(slot, capturing=True)
        except CudaError:
            with contextlib.suppress(CudaError):  # the capture is spoilt; ending it frees the stream
                call("cuStreamEndCapture", self._stream)
            raise
        graph = call("cuStreamEndCapture", self._stream)
        try:
            ready = call("cuGraphInstantiate", graph, 0)
        finally:
            call("cuGraphDestroy", graph)
        call("cuGraphUpload", ready, self._stream)
        return ready

    def _enqueue(self, slot: int, *, capturing: bool) -> None:
        self._watch.start(slot, self._stream, capturing=capturing)
        self._clear(slot)
        for index in range(len(self._work.launches)):
            self._launch(slot, index)
        self._watch.stop(slot, self._stream, capturing=capturing)

    def _clear(self, slot: int) -> None:
        for name, size in self._work.zeros:
            pointer = self._mapped.pointer(slot, name)
            if size % 4 == 0:
                call("cuMemsetD32Async", pointer, 0, size // 4, self._stream)
            else:
                call("cuMemsetD8Async", pointer, 0, size, self._stream)

    def _launch(self, slot: int, index: int) -> None:
        with _at(index):
            call("cuLaunchKernelEx", self._configs[index], self._functions[index].handle, self._packed[slot][index].address, 0)


@contextlib.contextmanager
def _at(launch: int) -> Iterator[None]:
    """Note in a CudaError which launch it belongs to."""
    try:
        yield
    except CudaError as error:
        error.launch = launch
        raise
