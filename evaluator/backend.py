"""What a backend must do: build, gate, and run a program in a process of its own beside a baseline.

A backend knows nothing of correctness, statistics or scores; ``evaluator.check`` and ``evaluator.timing`` work on any two
sides. ``tests/contracts/backend.py`` holds the contract test that every implementation passes.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from evaluator.disturbance import Pressure
from evaluator.outcome import Device, Fault
from evaluator.plan.resolved import Resolved
from evaluator.task_card import Scenario
from population.candidate import Language

Array = NDArray[np.generic]
"""A host array, or a device array (cupy) with the same dtypes where a backend's ``array_module`` is cupy; bf16 is carried as its
uint16 bit pattern."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """A compiled candidate for one set of defines.

    ``key`` is the content hash of source, defines, flags and compiler; ``path`` lies in the build cache (cubin or shared
    object). ``facts`` are compiler facts with units in their names (registers, spill_bytes, ...), ``log`` is cleaned and capped,
    ``ptx`` is empty on the CPU.
    """

    key: str
    path: Path
    log: str = ""
    ptx: str = ""
    facts: Mapping[str, int | float | str | bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """All that is needed to run one candidate in one scenario."""

    candidate_id: str
    scenario: Scenario
    build: Build
    resolved: Resolved


Facts = Mapping[str, int | float | str | bool]
"""What was found out about a candidate, with units in the names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A batch of executions that finished; ``elapsed_us`` covers the whole batch, by a clock the candidate can't touch."""

    elapsed_us: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A device that one evaluation holds.

    ``facts()`` tells what it has used of it so far, with units in the names, ``notes()`` what disturbed the device meanwhile.
    """

    facts: Callable[[], Mapping[str, int | float | str | bool]] = dict
    notes: Callable[[], Sequence[str]] = tuple


class Side(Protocol):
    """One party of a race: a process of its own that holds ``slots`` complete sets of buffers for one scenario.

    ``facts`` is what the device's driver says of its launches in that scenario, ``KERNEL.name`` for what concerns one kernel.
    Life cycle: ``fill`` some slots, ``run`` them once, ``read`` each; repeat; ``audit``; ``close``. A side that has returned
    a Fault is dead and only ``close`` may follow.
    """

    slots: int
    facts: Facts

    def fill(self, slot: int, inputs: Mapping[str, Array], poison: int) -> None:
        """Write the inputs and poison outputs and workspaces; ``poison`` picks one of the three patterns (0, 1, 2)."""

    def run(self, slots: Sequence[int], deadline_s: float) -> Ran | Fault:
        """Execute the whole plan once in each of ``slots``, in that order, as one timed batch."""

    def read(self, slot: int) -> Mapping[str, Array]:
        """Copies of the outputs of a slot."""

    def audit(self) -> Fault | None:
        """Inputs unchanged, guards intact, self-resetting workspaces zero, nothing computed after "done"."""

    def close(self) -> None:
        """Kill and reap the process, free all memory. Safe to call twice."""


class Backend(Protocol):
    """Builds and runs candidates of one language on one device.

    ``array_module`` (numpy or cupy) makes the arrays that its sides take in ``fill`` and give in ``read``. ``pressure`` tells
    what disturbs the device from outside. ``free_bytes`` is the device's free memory before anything of ours lay in it, None
    where buffers lie in the host's.
    """

    device: Device
    language: Language
    array_module: Any
    pressure: Pressure
    free_bytes: int | None

    def facts(self) -> Mapping[str, int]:
        """Device facts that plan expressions may use: ``sm_count``, ``shared_limit``."""

    def build(self, source: str, resolved: Resolved) -> Build | Fault:
        """Compile in a sandbox, or take from the cache. Thread-safe."""

    def gate(self, build: Build, resolved: Resolved) -> Fault | None:
        """Judge the compiled artefact, never the source text."""

    def lease(self, purpose: str) -> AbstractContextManager[Lease]:
        """Hold the device for all checks and races of one evaluation; compiling stays outside.

        Nothing is held where the host's lock does that for each race (CPU). Raises LockTimeoutError naming the holder.
        """

    def start(self, program: Program, slots: int) -> Side | Fault:
        """Start the candidate's process for one scenario."""

    def start_baseline(
        self, task_folder: Path, baseline: str, resolved: Resolved, scenario: Scenario, slots: int
    ) -> Side | Fault:
        """Start a named baseline of the task in a process of its own.

        May reuse a warm process, and buffers that only this baseline has mapped.
        """

    def close(self) -> None:
        """Stop every process that the backend keeps."""
