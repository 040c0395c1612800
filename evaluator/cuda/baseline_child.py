"""The process that runs baselines on a GPU: imports a task's ``baselines.py`` once, then obeys its parent.

Arguments: control socket, task folder, GPU. Each slot becomes a CUDA graph of what the baseline's call launches, between the
stopwatch's events, so that no time of Python or of launches is in a measurement.
"""

import contextlib
import gc
import os
import socket
import sys
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cupy
import torch

from evaluator.baseline import Baseline, Bound
from evaluator.buffers import NUMPY_TYPES
from evaluator.cuda.mapping import Mapped, map_shares
from evaluator.cuda.stopwatch import Stopwatch
from evaluator.messages import receive, send
from evaluator.task import load_baselines
from evaluator.warm import usable_baseline

WARM_CALLS = 2


@dataclass(slots=True)
class _Session:
    """What one side has bound, slot by slot. Results that a graph writes are kept by the Bound whose call was captured."""

    ordinal: int
    stream: torch.cuda.Stream
    mapped: Mapped | None = None
    stopwatch: Stopwatch | None = None
    bound: list[Bound] = field(default_factory=list)
    graphs: list[torch.cuda.CUDAGraph] = field(default_factory=list)


def _array(mapped: Mapped, slot: int, name: str, ordinal: int) -> cupy.ndarray:
    _, dtype, shape = mapped.shapes[name]
    kind = NUMPY_TYPES[dtype]
    size_bytes = kind.itemsize
    for extent in shape:
        size_bytes *= extent
    memory = cupy.cuda.UnownedMemory(mapped.pointer(slot, name), size_bytes, mapped, ordinal)
    return cupy.ndarray(shape, kind, cupy.cuda.MemoryPointer(memory, 0))


def _bind(
    session: _Session, baselines: Mapping[str, Baseline], request: Mapping[str, Any], files: list[int]
) -> dict[str, object]:
    """Bind and capture in every slot. Raises ValueError with the reason if the baseline can't run in this scenario."""
    symbols = request["symbols"]
    baseline = usable_baseline(baselines, request["baseline"], symbols)
    taken = list(files)
    files.clear()  # the mapping closes them
    mapped = session.mapped = map_shares(request["buffers"], taken)
    session.stopwatch = Stopwatch(request["slots"], session.ordinal)
    for slot in range(request["slots"]):
        arrays: dict[str, dict[str, cupy.ndarray]] = {"input": {}, "output": {}}
        for name, (role, _, _) in mapped.shapes.items():
            arrays[role][name] = _array(mapped, slot, name, session.ordinal)
        with _on(session):
            bound = baseline.bind(symbols, arrays["input"], arrays["output"])
            session.bound.append(bound)
            session.graphs.append(_capture(session, slot, bound))
    return {"chosen": session.bound[0].chosen, "read_only": mapped.read_only}


@contextlib.contextmanager
def _on(session: _Session) -> Iterator[None]:
    """torch and CuPy both use the session's stream."""
    with torch.cuda.stream(session.stream), cupy.cuda.ExternalStream(session.stream.cuda_stream):
        yield


def _capture(session: _Session, slot: int, bound: Bound) -> torch.cuda.CUDAGraph:
    """The slot's graph; in the first slot two plain calls come before, since libraries load kernels and choose algorithms then.

    Each has a memory pool of its own: in a shared one the scratch memory of one slot may lie where another keeps its result, and
    slots run in any order. ``torch.cuda.graph`` isn't used because it empties torch's cache before each capture.
    """
    assert session.stopwatch is not None
    for _ in range(0 if slot else WARM_CALLS):
        bound.call()
    session.stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    graph.capture_begin(pool=torch.cuda.graph_pool_handle(), capture_error_mode="relaxed")
    try:
        session.stopwatch.start(slot, session.stream.cuda_stream, capturing=True)
        bound.call()
        session.stopwatch.stop(slot, session.stream.cuda_stream, capturing=True)
    except BaseException:
        with contextlib.suppress(RuntimeError):
            graph.capture_end()
        raise
    graph.capture_end()
    return graph


def _run(session: _Session, slots: list[int]) -> dict[str, object]:
    """Replay the slots in order; the sum of their device times (us)."""
    assert session.stopwatch is not None
    with _on(session):
        for slot in slots:
            session.graphs[slot].replay()
        session.stream.synchronize()
    return {"elapsed_us": sum(session.stopwatch.elapsed_us(slot) for slot in slots)}


def _store(session: _Session, slot: int) -> dict[str, object]:
    """Copy a slot's result into its output buffers, outside the clock."""
    with _on(session):
        session.bound[slot].store()
        session.stream.synchronize()
    return {}


def _release(session: _Session) -> dict[str, object]:
    """Let go of everything that belongs to the side: graphs first, the memory that they use last."""
    torch.cuda.synchronize()
    session.graphs.clear()
    session.bound.clear()
    gc.collect()
    torch.cuda.empty_cache()
    if session.stopwatch is not None:
        session.stopwatch.close()
    if session.mapped is not None:
        session.mapped.close()
    session.stopwatch = session.mapped = None
    gc.freeze()  # what outlives a side is modules imported on the way: later collections needn't look at them
    return {}


def _obey(session: _Session, baselines: Mapping[str, Baseline], control: socket.socket) -> bool:
    """Handle one message; False when the parent is gone, or after a failure that leaves the GPU's state unknown."""
    received = receive(control)
    if received is None:
        return False
    message, files = received.fields, list(received.descriptors)
    answer: dict[str, object] = {}
    fit = True
    try:
        if message["do"] == "bind":
            answer = _bind(session, baselines, message, files)
        elif message["do"] == "run":
            answer = _run(session, message["slots"])
        elif message["do"] == "store":
            answer = _store(session, message["slot"])
        else:
            answer = _release(session)
    except ValueError as refused:
        answer = {"error": str(refused)}
    except Exception:  # the parent decides what to do about a baseline that fails
        answer, fit = {"error": traceback.format_exc(limit=-3)}, False
    for descriptor in files:
        os.close(descriptor)
    send(control, answer)
    return fit


def main(arguments: list[str]) -> None:
    """Obey until the parent closes the control socket."""
    control = socket.socket(fileno=int(arguments[0]))
    folder, ordinal = Path(arguments[1]), int(arguments[2])
    torch.cuda.set_device(ordinal)
    cupy.cuda.Device(ordinal).use()
    torch.zeros(1, device="cuda")  # makes the context that the mappings belong to
    session = _Session(ordinal=ordinal, stream=torch.cuda.Stream())
    baselines = {baseline.name: baseline for baseline in load_baselines(folder)}
    gc.collect()
    gc.freeze()
    gc.disable()
    while _obey(session, baselines, control):
        pass


if __name__ == "__main__":
    main(sys.argv[1:])
