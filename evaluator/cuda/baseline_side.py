"""A baseline's side of a race on the GPU: buffers of its own, bound in a warm process, kept for the next such race."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from evaluator.backend import Array, Ran
from evaluator.cuda.baseline import BaselineProcess
from evaluator.outcome import Fault
from evaluator.plan.resolved import Buffer, Resolved
from evaluator.task_card import Scenario, SymbolValue
from evaluator.warm import BaselineSide, Held, WarmPool, baseline_fault

if TYPE_CHECKING:
    from evaluator.cuda.allocations import Pool
    from evaluator.cuda.layout import Damage

DAMAGES = {
    "input": "wrote into the input",
    "before": "wrote before the start of",
    "after": "wrote past the end of",
    "reset": "left something in",
}


Key = tuple[Path, str, tuple[tuple[str, SymbolValue], ...], tuple[Buffer, ...], int]
"""Folder, baseline, symbols of the scenario, tensors, slots: where all are equal, one bound side is as good as another."""


class Bench:
    """Where the side of a baseline that was used last waits, bound, for the next race of the same baseline in the same scenario.

    Binding it anew would cost more than a short race. It is closed when another side is asked for, which gets its process.
    ``allocations`` must never hold memory that a candidate has mapped; ``make_room`` is called where memory is short.
    """

    def __init__(self, processes: WarmPool[BaselineProcess], allocations: "Pool", make_room: Callable[[], None]) -> None:
        self.processes, self.allocations, self.make_room = processes, allocations, make_room
        self._waiting: tuple[Key, BaselineSide[BaselineProcess]] | None = None

    def take(self, key: Key) -> BaselineSide[BaselineProcess] | None:
        """The waiting side if it is that one; any other is closed."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None and waiting[0] == key:
            return waiting[1]
        if waiting is not None:
            waiting[1].close()
        return None

    def give(self, key: Key, side: BaselineSide[BaselineProcess]) -> None:
        """Take back a side, to wait if it is still sound."""
        self.clear()
        if side.audit() is None:
            self._waiting = (key, side)
        else:
            side.close()

    def clear(self) -> None:
        """Close the side that waits."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting[1].close()


class LentSide:
    """Implements ``evaluator.backend.Side`` by a baseline's side that goes back to its bench in the end."""

    def __init__(self, side: BaselineSide[BaselineProcess], bench: Bench, key: Key) -> None:
        self.slots, self.facts, self.chosen = side.slots, side.facts, side.chosen
        self._side, self._bench, self._key = side, bench, key
        self._open = True

    def fill(self, slot: int, inputs: Mapping[str, Array], poison: int) -> None:
        """See ``evaluator.backend.Side``."""
        self._side.fill(slot, inputs, poison)

    def run(self, slots: Sequence[int], deadline_s: float) -> Ran | Fault:
        """See ``evaluator.backend.Side``."""
        return self._side.run(slots, deadline_s)

    def read(self, slot: int) -> Mapping[str, Array]:
        """See ``evaluator.backend.Side``."""
        return self._side.read(slot)

    def audit(self) -> Fault | None:
        """See ``evaluator.backend.Side``."""
        return self._side.audit()

    def close(self) -> None:
        """See ``evaluator.backend.Side``."""
        if self._open:
            self._open = False
            self._bench.give(self._key, self._side)


def start_baseline(
    bench: Bench, folder: Path, baseline: str, resolved: Resolved, scenario: Scenario, slots: int
) -> LentSide | Fault:
    """A side that waits bound to the same, or a newly bound one with fresh buffers on a warm process."""
    plain = replace(resolved, workspaces=())
    folder = folder.resolve()
    key = (folder, baseline, tuple(scenario.symbols.items()), plain.tensors, slots)
    side = bench.take(key)
    if side is None:
        bound = _bound(bench, folder, baseline, plain, scenario, slots)
        if isinstance(bound, Fault):
            return bound
        side = bound
    return LentSide(side, bench, key)


def _bound(
    bench: Bench, folder: Path, baseline: str, plain: Resolved, scenario: Scenario, slots: int
) -> BaselineSide[BaselineProcess] | Fault:
    from evaluator.cuda.driver import CudaError
    from evaluator.cuda.memory import with_room

    memory = with_room(plain, slots, bench.allocations, bench.make_room)
    if isinstance(memory, CudaError):
        return baseline_fault(f"No device memory for {slots} slots of the baseline: {memory}. Use fewer.", plain)
    try:
        held = Held(pool=bench.processes, folder=folder, process=bench.processes.take(folder))
    except OSError as error:
        memory.close()
        return baseline_fault(f"The baseline's process could not be started: {error}", plain)
    side = BaselineSide(plain, slots, held, memory, lambda: _explain(memory.damage()), memory.settle)
    buffers, files = memory.shares()
    try:
        bound = side.bind(baseline, scenario, {"buffers": buffers}, files)
    finally:
        for descriptor in files:
            os.close(descriptor)
    if isinstance(bound, Fault):
        side.close()
        return bound
    memory.hash_inputs = not bound["read_only"]
    return side


def _explain(damage: "Damage | None") -> str | None:
    if damage is None:
        return None
    where = f" ({damage.distance_bytes} bytes)" if damage.distance_bytes else ""
    return f"it {DAMAGES[damage.what]} {damage.block.buffer.name!r}{where}"
