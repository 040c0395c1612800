"""A baseline's side of a race: a warm process of ours that has imported the task's ``baselines.py``, on any backend.

Its buffers are never mapped by a candidate, and no other side has them. One process serves one side at a time.
"""

import os
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from evaluator.backend import Array, Facts, Ran
from evaluator.baseline import Baseline, Symbols
from evaluator.messages import receive, send
from evaluator.outcome import Fault, Stage, Verdict
from evaluator.plan.resolved import Resolved
from evaluator.task_card import Scenario

CONTROL_DEADLINE_S = 120.0


class WarmProcess(Protocol):
    """A process that binds a baseline to buffers, runs it and stores its results, as ``BaselineSide`` asks."""

    @property
    def pid(self) -> int:
        """Process id."""

    def ask(self, message: Mapping[str, object], files: Sequence[int] = ()) -> Mapping[str, Any] | str:
        """The answer to a control message, or what went wrong, as text."""

    def run(self, slots: Sequence[int], deadline_s: float) -> float | str:
        """Time (us) of one execution in each slot, in order; or what went wrong, after which the process is of no use."""

    def end(self) -> None:
        """Kill and reap. Safe to call twice."""


class Buffers(Protocol):
    """The memory of a side as its parent sees it."""

    def fill(self, slot: int, inputs: Mapping[str, Array], poison: int) -> None:
        """Write the inputs, poison the rest."""

    def outputs(self, slot: int) -> Mapping[str, Array]:
        """Copies of the outputs."""

    def close(self) -> None:
        """Free the memory."""


Process = TypeVar("Process", bound=WarmProcess)


@dataclass(slots=True)
class WarmPool(Generic[Process]):
    """Warm processes by task folder; ``start`` makes one."""

    start: Callable[[Path], Process]
    _idle: dict[Path, list[Process]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, folder: Path) -> Process:
        """An idle process for the folder, or a new one. Raises OSError if none can be started."""
        with self._lock:
            waiting = self._idle.get(folder, [])
            if waiting:
                return waiting.pop()
        return self.start(folder)

    def give(self, folder: Path, process: Process) -> None:
        """Take back a process that works and holds no buffers."""
        with self._lock:
            self._idle.setdefault(folder, []).append(process)

    def close(self) -> None:
        """End all idle processes."""
        with self._lock:
            for process in (process for waiting in self._idle.values() for process in waiting):
                process.end()
            self._idle.clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class Held(Generic[Process]):
    """A process taken from its pool, and where it goes back to."""

    pool: WarmPool[Process]
    folder: Path
    process: Process


class BaselineSide(Generic[Process]):
    """Implements ``evaluator.backend.Side`` for a named baseline. Every fault of it is ours: HARNESS_FAULT.

    ``damage`` says what an execution did to ``memory`` that it may not do; ``settle`` waits until all that this process asked of
    a device is done. ``chosen`` is the variant that a baseline made of several picked for the scenario, empty for others.
    """

    def __init__(
        self,
        resolved: Resolved,
        slots: int,
        held: Held[Process],
        memory: Buffers,
        damage: Callable[[], str | None],
        settle: Callable[[], None] = lambda: None,
    ) -> None:
        self.slots = slots
        self.facts: Facts = {}
        self.chosen = ""
        self._resolved, self._held, self._memory = resolved, held, memory
        self._damage, self._settle = damage, settle
        self._dead: Fault | None = None
        self._open = True

    @property
    def pid(self) -> int:
        """Process id of the baseline's process."""
        return self._held.process.pid

    def bind(
        self, baseline: str, scenario: Scenario, buffers: Mapping[str, object], files: Sequence[int]
    ) -> Mapping[str, Any] | Fault:
        """Let the process map ``buffers`` from ``files`` and prepare the baseline in every slot; its answer."""
        request = {"do": "bind", "baseline": baseline, "symbols": dict(scenario.symbols), "slots": self.slots, **buffers}
        answer = self._held.process.ask(request, files)
        if isinstance(answer, str):
            return baseline_fault(f"The baseline {baseline!r} can't run here: {answer}", self._resolved)
        self.chosen = answer.get("chosen", "")
        return answer

    def fill(self, slot: int, inputs: Mapping[str, Array], poison: int) -> None:
        """See ``evaluator.backend.Side``."""
        self._memory.fill(slot, inputs, poison)

    def run(self, slots: Sequence[int], deadline_s: float) -> Ran | Fault:
        """See ``evaluator.backend.Side``."""
        if self._dead is not None:
            return self._dead
        if not slots or not all(0 <= slot < self.slots for slot in slots):
            raise ValueError(f"slots {list(slots)}: a run takes at least one slot, each below {self.slots}")
        self._settle()
        took_us = self._held.process.run(slots, deadline_s)
        if isinstance(took_us, str):
            return self._die(took_us)
        return Ran(elapsed_us=took_us)

    def read(self, slot: int) -> Mapping[str, Array]:
        """See ``evaluator.backend.Side``. The copy from the baseline's own result into the slot happens here."""
        if self._dead is None:
            answer = self._held.process.ask({"do": "store", "slot": slot})
            if isinstance(answer, str):
                self._die(f"The baseline could not store its result: {answer}")
        return self._memory.outputs(slot)

    def audit(self) -> Fault | None:
        """See ``evaluator.backend.Side``."""
        damage = self._damage() if self._dead is None else None
        if damage is not None:
            return self._die(f"The baseline damaged memory: {damage}")
        return self._dead

    def close(self) -> None:
        """See ``evaluator.backend.Side``. A process that works goes back to the pool without its buffers."""
        if not self._open:
            return
        self._open = False
        held = self._held
        if self._dead is None and not isinstance(held.process.ask({"do": "release"}), str):
            held.pool.give(held.folder, held.process)
        else:
            held.process.end()
        self._memory.close()

    def _die(self, text: str) -> Fault:
        self._dead = baseline_fault(text, self._resolved)
        self._held.process.end()
        return self._dead


def baseline_fault(text: str, resolved: Resolved) -> Fault:
    """What went wrong with a baseline, which no candidate is to blame for."""
    return Fault(verdict=Verdict.HARNESS_FAULT, stage=Stage.CHECK, message=text, scenario=resolved.scenario)


def exchange(
    control: socket.socket, message: Mapping[str, object], files: Sequence[int], deadline_s: float
) -> Mapping[str, Any] | str | None:
    """The answer of a warm process; as text what it complains of; None if it has ended. Raises TimeoutError."""
    control.settimeout(deadline_s)
    try:
        send(control, message, descriptors=files)
        received = receive(control)
    except TimeoutError:
        raise
    except OSError:
        return None
    if received is None:
        return None
    error: str | None = received.fields.get("error")
    return received.fields if error is None else error


def usable_baseline(baselines: Mapping[str, Baseline], name: str, symbols: Symbols) -> Baseline:
    """The named baseline. Raises ValueError with the reason why it can't run here or in this scenario."""
    baseline = baselines.get(name)
    if baseline is None:
        raise ValueError(f"the task has no baseline of that name; it has {', '.join(baselines)}")
    missing = baseline.available()
    if missing is not None:
        raise ValueError(missing)
    if not baseline.supports(symbols):
        raise ValueError(f"it doesn't compute the scenario {dict(symbols)}")
    return baseline


def python_environment() -> dict[str, str]:
    """This process's environment, with the project on Python's path."""
    here = str(Path(__file__).parents[1])
    return {**os.environ, "PYTHONPATH": os.pathsep.join(part for part in (here, os.environ.get("PYTHONPATH", "")) if part)}
