"""The order of things in a baseline's process on the GPU, with stand-ins for torch's and CuPy's devices."""

import contextlib
import importlib
import socket
import sys
from collections.abc import Iterator, Mapping
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from evaluator.baseline import Baseline, Bound
from evaluator.messages import receive, send, socket_pair

torch = pytest.importorskip("torch")
pytest.importorskip("cuda.bindings.driver")

SHAPES = {"x": ("input", "float32", (4,)), "y": ("output", "float32", (4,))}


class Device:
    """Memory by address, and a log of what was asked of the device."""

    def __init__(self) -> None:
        self.memory: dict[int, Any] = {}
        self.log: list[str] = []
        self.recording: list[Any] | None = None

    def call(self, work: Any) -> None:
        """What a library's launch does: run, or be recorded."""
        if self.recording is None:
            work()
        else:
            self.recording.append(work)


class Mapped:
    read_only = True
    shapes = SHAPES

    def __init__(self, device: Device) -> None:
        self.device = device

    def pointer(self, slot: int, name: str) -> int:
        address = 100 * slot + (1 if name == "y" else 0)
        self.device.memory.setdefault(address, np.zeros(4, np.float32))
        return address

    def close(self) -> None:
        self.device.log.append("unmap")


def graph_of(device: Device) -> type:
    class Graph:
        def __init__(self) -> None:
            self.work: list[Any] = []

        def capture_begin(self, pool: Any, capture_error_mode: str) -> None:
            device.recording = self.work
            device.log.append(f"begin {capture_error_mode}")

        def capture_end(self) -> None:
            device.recording = None
            device.log.append("end")

        def replay(self) -> None:
            for work in self.work:
                work()

    return Graph


def stopwatch_of(device: Device) -> type:
    class Watch:
        def __init__(self, executions: int, ordinal: int) -> None:
            device.log.append(f"stopwatch {executions}")

        def start(self, execution: int, stream: Any, *, capturing: bool) -> None:
            device.log.append(f"start {execution} {capturing}")

        def stop(self, execution: int, stream: Any, *, capturing: bool) -> None:
            device.log.append(f"stop {execution} {capturing}")

        def elapsed_us(self, execution: int) -> float:
            return 10.0 + execution

        def close(self) -> None:
            device.log.append("stopwatch closed")

    return Watch


@pytest.fixture
def device() -> Device:
    return Device()


@pytest.fixture
def child(device: Device, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module, on stand-ins."""
    cupy = ModuleType("cupy")
    cupy.ndarray = lambda shape, kind, pointer: device.memory[pointer]  # type: ignore[attr-defined]
    cupy.cuda = SimpleNamespace(  # type: ignore[attr-defined]
        UnownedMemory=lambda pointer, size, owner, ordinal: pointer,
        MemoryPointer=lambda memory, offset: memory + offset,
        ExternalStream=lambda handle: contextlib.nullcontext(),
    )
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.delitem(sys.modules, "evaluator.cuda.baseline_child", raising=False)
    module = importlib.import_module("evaluator.cuda.baseline_child")
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "CUDAGraph", graph_of(device))
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: (0, 1))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: device.log.append("wait"))
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: device.log.append("empty cache"))
    monkeypatch.setattr(module, "map_shares", lambda buffers, files: Mapped(device))
    monkeypatch.setattr(module, "Stopwatch", stopwatch_of(device))
    monkeypatch.setattr(module.gc, "freeze", lambda: None)
    yield module
    sys.modules.pop("evaluator.cuda.baseline_child", None)


class Parent:
    """Asks one session of the child."""

    def __init__(self, child: Any, device: Device) -> None:
        self.child = child
        stream = SimpleNamespace(cuda_stream=7, synchronize=lambda: None)
        self.session = child._Session(ordinal=0, stream=stream)
        self.ours, self.theirs = socket_pair()
        self.baselines = {name: self._baseline(name, device) for name in ("plain", "fails")}

    def ask(self, message: Mapping[str, object]) -> tuple[dict[str, Any], bool]:
        """The answer, and whether the child goes on."""
        send(self.ours, message)
        goes_on: bool = self.child._obey(self.session, self.baselines, self.theirs)
        answer = receive(self.ours)
        assert answer is not None
        return dict(answer.fields), goes_on

    def bind(self, name: str, slots: int = 2, n: int = 4) -> tuple[dict[str, Any], bool]:
        return self.ask({"do": "bind", "baseline": name, "symbols": {"n": n}, "slots": slots, "buffers": []})

    def _baseline(self, name: str, device: Device) -> Baseline:
        def bind(symbols: Any, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> Bound:
            latest: dict[str, Any] = {}

            def call() -> None:
                if name == "fails" and device.recording is not None:
                    raise ZeroDivisionError("division by zero")
                device.call(lambda: latest.update(result=2 * inputs["x"]))

            return Bound(call=call, store=lambda: np.copyto(outputs["y"], latest["result"]), chosen="doubling")

        return Baseline(
            name=name,
            backend="cuda",
            available=lambda: None,
            version=lambda: "1",
            supports=lambda symbols: symbols["n"] == 4,
            bind=bind,
        )


@pytest.fixture
def parent(child: Any, device: Device) -> Parent:
    return Parent(child, device)


def test_slots_are_captured_between_the_events_and_replayed_in_order(parent: Parent, device: Device) -> None:
    assert parent.bind("plain") == ({"chosen": "doubling", "read_only": True}, True)
    captured = ["begin relaxed", "start {} True", "stop {} True", "end"]
    assert device.log == ["stopwatch 2", *(line.format(slot) for slot in range(2) for line in captured)]
    device.memory[100][:] = [1, 2, 3, 4]
    assert parent.ask({"do": "run", "slots": [1, 0]}) == ({"elapsed_us": 21.0}, True)
    assert (device.memory[101] == 0).all()
    assert parent.ask({"do": "store", "slot": 1}) == ({}, True)
    assert device.memory[101].tolist() == [2, 4, 6, 8]
    assert (device.memory[1] == 0).all()


def test_a_release_lets_go_of_the_mapping_last(parent: Parent, device: Device) -> None:
    parent.bind("plain")
    device.log.clear()
    assert parent.ask({"do": "release"}) == ({}, True)
    assert device.log == ["wait", "empty cache", "stopwatch closed", "unmap"]
    assert not parent.session.graphs
    assert parent.bind("plain")[1]


def test_a_refusal_leaves_the_process_usable(parent: Parent) -> None:
    answer, goes_on = parent.bind("plain", n=5)
    assert "doesn't compute" in answer["error"]
    assert goes_on
    assert "no baseline of that name" in parent.bind("typo")[0]["error"]
    assert parent.ask({"do": "release"}) == ({}, True)
    assert parent.bind("plain")[1]


def test_a_failure_while_capturing_ends_the_capture_and_then_the_process(parent: Parent, device: Device) -> None:
    answer, goes_on = parent.bind("fails")
    assert "ZeroDivisionError" in answer["error"]
    assert not goes_on
    assert device.log[-1] == "end"


def test_it_ends_with_its_parent(parent: Parent) -> None:
    parent.ours.shutdown(socket.SHUT_RDWR)
    assert parent.child._obey(parent.session, parent.baselines, parent.theirs) is False
