"""A baseline's side of a race: a warm process of ours that has imported the task's ``baselines.py``.

Its buffers are fresh for every side and never mapped by a candidate. One process serves one side at a time.
"""

import json
import os
import socket
import struct
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from evaluator.backend import Array, Ran
from evaluator.cpu.child import Child, Clock, slot_fields, spawn
from evaluator.cpu.faults import explain_damage, fault
from evaluator.cpu.memory import Memory
from evaluator.outcome import Fault, Verdict
from evaluator.plan.resolved import Resolved
from evaluator.task_card import Scenario

RECORD = struct.Struct("<Q?")
COMMAND = struct.Struct("<QI251I")
CONTROL_DEADLINE_S = 120.0
SETTLE_US = 20_000.0
SPIN_COUNT = "20000"  # how long idle OpenMP threads spin: long between parallel regions, short against the other side's turn


@dataclass(slots=True)
class BaselineProcess:
    """A warm process and its control socket."""

    child: Child
    control: socket.socket

    def ask(self, message: Mapping[str, object], descriptors: Sequence[int] = ()) -> str | None:
        """Send a control message and wait for the answer: None for success, else what went wrong."""
        try:
            socket.send_fds(self.control, [json.dumps(message).encode()], list(descriptors))
            answer = self.control.recv(1 << 16)
        except TimeoutError:
            self.child.end()
            return f"no answer within {CONTROL_DEADLINE_S:g} s"
        except OSError:
            answer = b""
        if not answer:
            self.child.end(grace_s=1.0)
            return f"the baseline's process ended: {self.child.complaint[-1000:]}"
        failed: str | None = json.loads(answer)["error"]
        return failed

    def end(self) -> None:
        """Kill and reap."""
        self.control.close()
        self.child.end()


@dataclass(slots=True)
class BaselinePool:
    """Warm processes by task folder. ``on_spawner`` runs a function in the thread that owns children."""

    cores: Sequence[int]
    clock_ns: Clock
    on_spawner: Callable[[Callable[[], Child]], Child]
    _idle: dict[Path, list[BaselineProcess]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, folder: Path) -> BaselineProcess:
        """An idle process for the folder, or a new one. Raises OSError if none can be started."""
        with self._lock:
            waiting = self._idle.get(folder, [])
            if waiting:
                return waiting.pop()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(CONTROL_DEADLINE_S)
        cores = ",".join(str(core) for core in self.cores)

        def argv(command: int, record: int) -> Sequence[str]:
            module = (sys.executable, "-m", "evaluator.cpu.baseline_child")
            return (*module, str(theirs.fileno()), str(command), str(record), str(folder), cores)

        with theirs:
            child = self.on_spawner(
                lambda: spawn(
                    argv,
                    keep_fds=(theirs.fileno(),),
                    environment=_environment(len(self.cores)),
                    record_bytes=RECORD.size,
                    clock_ns=self.clock_ns,
                )
            )
        return BaselineProcess(child, ours)

    def give(self, folder: Path, process: BaselineProcess) -> None:
        """Take back a process that works and holds no buffers."""
        with self._lock:
            self._idle.setdefault(folder, []).append(process)

    def close(self) -> None:
        """End all idle processes."""
        with self._lock:
            for process in (process for waiting in self._idle.values() for process in waiting):
                process.end()
            self._idle.clear()


def _environment(threads: int) -> dict[str, str]:
    here = str(Path(__file__).parents[2])
    path = os.pathsep.join(part for part in (here, os.environ.get("PYTHONPATH", "")) if part)
    number = str(threads)
    ours = {"OMP_NUM_THREADS": number, "MKL_NUM_THREADS": number, "OPENBLAS_NUM_THREADS": number, "GOMP_SPINCOUNT": SPIN_COUNT}
    return {**os.environ, **ours, "PYTHONPATH": path}


class BaselineSide:
    """Implements ``evaluator.backend.Side`` for a named baseline. Every fault of it is ours: HARNESS_FAULT."""

    def __init__(self, resolved: Resolved, slots: int, folder: Path, process: BaselineProcess, pool: BaselinePool) -> None:
        self.slots = slots
        self._resolved, self._folder, self._process, self._pool = resolved, folder, process, pool
        self._memory = Memory(resolved, slots)
        self._dead: Fault | None = None
        self._sequence = 0
        self._open = True

    @property
    def pid(self) -> int:
        """Process id of the baseline's process."""
        return self._process.child.pid

    def bind(self, baseline: str, scenario: Scenario) -> Fault | None:
        """Map the buffers and prepare the baseline in every slot."""
        blocks = [
            {
                "name": block.buffer.name,
                "role": block.buffer.role,
                "slot": block.slot,
                "start": block.span.start,
                "bytes": block.bytes,
                "dtype": block.buffer.dtype,
                "shape": block.buffer.shape,
            }
            for block in self._memory.blocks
        ]
        request = {"baseline": baseline, "symbols": dict(scenario.symbols), "slots": self.slots, "blocks": blocks}
        description = os.memfd_create("request", os.MFD_CLOEXEC)
        try:
            os.write(description, json.dumps(request).encode())
            files = (description, self._memory.inputs_fd, self._memory.scratch_fd)
            error = self._process.ask({"do": "bind"}, files)
        finally:
            os.close(description)
        if error is None:
            return None
        return fault(Verdict.HARNESS_FAULT, f"The baseline {baseline!r} can't run here: {error}", self._resolved)

    def fill(self, slot: int, inputs: Mapping[str, Array], poison: int) -> None:
        """See ``evaluator.backend.Side``."""
        self._memory.fill(slot, inputs, poison)

    def run(self, slots: Sequence[int], deadline_s: float) -> Ran | Fault:
        """See ``evaluator.backend.Side``. Waits afterwards, outside the clock, until its threads have stopped spinning."""
        if self._dead is not None:
            return self._dead
        self._sequence += 1
        command = COMMAND.pack(self._sequence, *slot_fields(slots, self.slots))
        answer = self._process.child.exchange(command, deadline_s)
        if answer.timed_out:
            return self._die(f"The baseline was not done after {deadline_s:g} s.")
        if len(answer.record) != RECORD.size:
            self._process.child.end(grace_s=1.0)
            return self._die(f"The baseline's process ended: {self._process.child.complaint[-1000:]}")
        if RECORD.unpack(answer.record) != (self._sequence, True):
            return self._die(f"The baseline failed: {self._process.ask({'do': 'explain'})}")
        self._process.child.settle(SETTLE_US)
        return Ran(elapsed_us=answer.elapsed_us)

    def read(self, slot: int) -> Mapping[str, Array]:
        """See ``evaluator.backend.Side``. The copy from the baseline's own result into the slot happens here."""
        if self._dead is None:
            error = self._process.ask({"do": "store", "slot": slot})
            if error is not None:
                self._die(f"The baseline could not store its result: {error}")
        return self._memory.outputs(slot)

    def audit(self) -> Fault | None:
        """See ``evaluator.backend.Side``."""
        damage = self._memory.damage() if self._dead is None else None
        if damage is not None:
            return self._die(f"The baseline damaged memory: {explain_damage(damage, self._resolved).message}")
        return self._dead

    def close(self) -> None:
        """See ``evaluator.backend.Side``. A process that works goes back to the pool without its buffers."""
        if not self._open:
            return
        self._open = False
        if self._dead is None and self._process.ask({"do": "release"}) is None:
            self._pool.give(self._folder, self._process)
        else:
            self._process.end()
        self._memory.close()

    def _die(self, text: str) -> Fault:
        self._dead = fault(Verdict.HARNESS_FAULT, text, self._resolved)
        self._process.end()
        return self._dead


def start_baseline(
    pool: BaselinePool, folder: Path, baseline: str, resolved: Resolved, scenario: Scenario, slots: int
) -> BaselineSide | Fault:
    """A side with fresh buffers on a warm process."""
    plain = replace(resolved, workspaces=())
    folder = folder.resolve()
    try:
        process = pool.take(folder)
    except OSError as error:
        return fault(Verdict.HARNESS_FAULT, f"The baseline's process could not be started: {error}", plain)
    side = BaselineSide(plain, slots, folder, process, pool)
    failed = side.bind(baseline, scenario)
    if failed is not None:
        side.close()
        return failed
    return side
