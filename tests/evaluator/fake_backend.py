"""A backend without a compiler or processes: times, outputs and faults are programmed, so every path of the harness is reachable.

It runs the tiny task (y = 2 x, total = row sums of x) of tests/evaluator/tiny_task.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from evaluator.backend import Array, Build, Facts, Lease, Program, Ran, Side
from evaluator.outcome import Device, Fault, Stage, Verdict
from evaluator.plan.resolved import Resolved
from evaluator.task_card import Scenario
from population.candidate import Candidate, Language, hash_text

POISONS = (np.float32(np.nan), np.float32(3e38), np.float32(0.5))
DEVICE = Device(kind="cpu", name="fake", arch="fake", cores=2, peak_tflops=1.0, peak_gbs=10_000.0)

Outputs = dict[str, Array]
Spoil = Callable[[int, Outputs, Outputs], Outputs]
"""(number of the execution in its process, right outputs, memory before) -> outputs."""


def honest(execution: int, right: Outputs, before: Outputs) -> Outputs:
    return right


@dataclass
class Behaviour:
    """What one candidate or baseline does. ``time_us`` gives the time of an execution by scenario and execution number."""

    time_us: Callable[[Scenario, int], float] = lambda scenario, execution: 100.0
    spoil: Spoil = honest
    facts: Callable[[Scenario], Facts] = lambda scenario: {}
    faults: Mapping[int, Fault] = field(default_factory=dict)
    audit_fault: Fault | None = None
    start_fault: Fault | None = None
    build_fault: Fault | None = None
    gate_fault: Fault | None = None


@dataclass
class FakeClock:
    """Seconds that pass only when a fake side runs, or when a test says so."""

    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s


class FakeSide:
    def __init__(self, behaviour: Behaviour, scenario: Scenario, slots: int, backend: "FakeBackend") -> None:
        self.slots, self.facts = slots, behaviour.facts(scenario)
        self.behaviour, self.scenario, self.backend = behaviour, scenario, backend
        self.executions = 0
        self.inputs: dict[int, Mapping[str, Array]] = {}
        self.outputs: dict[int, Outputs] = {}
        self.ready: set[int] = set()
        self.closed = False

    def fill(self, slot: int, inputs: Mapping[str, Array], poison: int) -> None:
        assert 0 <= slot < self.slots
        n, m = inputs["x"].shape
        self.inputs[slot] = inputs
        self.outputs[slot] = {
            "y": np.full((n, m), POISONS[poison], np.float32),
            "total": np.full(n, POISONS[poison], np.float32),
        }
        self.ready.add(slot)
        self.backend.fills.append((self, inputs["x"].tobytes(), poison))

    def run(self, slots: Sequence[int], deadline_s: float) -> Ran | Fault:
        assert len(set(slots)) == len(slots)
        assert self.ready.issuperset(slots), "every execution needs fresh inputs and poisoned outputs"
        elapsed_us = 0.0
        for slot in slots:
            if self.executions in self.behaviour.faults:
                return self.behaviour.faults[self.executions]
            x = self.inputs[slot]["x"]
            right = {"y": np.float32(2.0) * x, "total": x.sum(axis=1, dtype=np.float32)}
            self.outputs[slot] = self.behaviour.spoil(self.executions, right, self.outputs[slot])
            elapsed_us += self.behaviour.time_us(self.scenario, self.executions)
            self.executions += 1
            self.ready.discard(slot)
        self.backend.windows.append((self, tuple(slots)))
        self.backend.clock.now_s += elapsed_us * 1e-6 if np.isfinite(elapsed_us) else 0.0
        return Ran(elapsed_us=elapsed_us)

    def read(self, slot: int) -> Mapping[str, Array]:
        return {name: array.copy() for name, array in self.outputs[slot].items()}

    def audit(self) -> Fault | None:
        return self.behaviour.audit_fault

    def close(self) -> None:
        self.closed = True


@dataclass
class FakeBackend:
    """Behaviours by candidate id and by baseline name; everybody else is honest and takes 100 us."""

    behaviours: dict[str, Behaviour] = field(default_factory=dict)
    clock: FakeClock = field(default_factory=FakeClock)
    device: Device = DEVICE
    language: Language = Language.CPP
    array_module: Any = np
    free_bytes: int | None = None
    sides: list[FakeSide] = field(default_factory=list)
    windows: list[tuple[FakeSide, tuple[int, ...]]] = field(default_factory=list)
    fills: list[tuple[FakeSide, bytes, int]] = field(default_factory=list)
    built: list[str] = field(default_factory=list)
    leased: list[str] = field(default_factory=list)
    held: bool = False
    closed: bool = False

    def facts(self) -> Mapping[str, int]:
        return {"sm_count": 2, "shared_limit": 0}

    def pressure(self) -> int:
        return 0

    @contextmanager
    def lease(self, purpose: str) -> Iterator[Lease]:
        self.leased.append(purpose)
        self.held = True
        try:
            yield Lease(facts=lambda: {"lease_s": 1.5})
        finally:
            self.held = False

    def build(self, source: str, resolved: Resolved) -> Build | Fault:
        assert not self.held, "compiling stays outside the lease"
        behaviour = self.of(hash_text(source))
        self.built.append(str(sorted(resolved.defines.items())))
        if behaviour.build_fault is not None:
            return behaviour.build_fault
        key = hash_text(source + self.built[-1])
        return Build(key=key, path=Path(key), facts={"size_bytes": len(source), "compiler": "fake"})

    def gate(self, build: Build, resolved: Resolved) -> Fault | None:
        return next((item.gate_fault for item in self.behaviours.values() if item.gate_fault is not None), None)

    def start(self, program: Program, slots: int) -> Side | Fault:
        return self._start(program.candidate_id, program.scenario, slots)

    def start_baseline(
        self, task_folder: Path, baseline: str, resolved: Resolved, scenario: Scenario, slots: int
    ) -> Side | Fault:
        return self._start(baseline, scenario, slots)

    def close(self) -> None:
        self.closed = True

    def of(self, name: str) -> Behaviour:
        return self.behaviours.get(name, Behaviour())

    def _start(self, name: str, scenario: Scenario, slots: int) -> Side | Fault:
        assert self.held, "a side runs under a lease"
        behaviour = self.of(name)
        if behaviour.start_fault is not None:
            return behaviour.start_fault
        side = FakeSide(behaviour, scenario, slots, self)
        self.sides.append(side)
        return side


SOURCE = """/* plan
{extra}
[knobs]
ROWS = {{ value = 4, choices = [4, 8] }}

[[launch]]
kernel = "double_rows"
grid = ["ceil_div(n, ROWS)"]
args = ["x", "y", "total", "n", "m"]
*/
extern "C" void double_rows(long task, void* const* args) {{}}
// {mark}
"""


def candidate(mark: str = "", extra: str = "") -> Candidate:
    """A candidate whose plan is valid for the tiny task; ``mark`` makes it another one."""
    source = SOURCE.format(mark=mark, extra=extra)
    return Candidate(id=hash_text(source), normal_id=hash_text(source), language=Language.CPP, source=source)


def noisy(rng: np.random.Generator, mean_us: float, spread: float = 0.01) -> Callable[[Scenario, int], float]:
    """Times around ``mean_us`` with a relative spread."""
    return lambda scenario, execution: mean_us * float(np.exp(spread * rng.standard_normal()))


def fault(verdict: Verdict, stage: Stage = Stage.TIME) -> Fault:
    return Fault(verdict=verdict, stage=stage, message=f"programmed {verdict}")
