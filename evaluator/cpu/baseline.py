"""The process of a baseline on the CPU, timed by our clock through two pipes beside its control socket."""

import socket
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evaluator.cpu.child import MOST_SLOTS, Child, Clock, slot_fields, spawn
from evaluator.cpu.faults import explain_damage
from evaluator.cpu.memory import Memory
from evaluator.outcome import Fault
from evaluator.plan.resolved import Resolved
from evaluator.task_card import Scenario
from evaluator.warm import CONTROL_DEADLINE_S, BaselineSide, Held, WarmPool, baseline_fault, exchange, python_environment

RECORD = struct.Struct("<Q?")
COMMAND = struct.Struct("<QI251I")
SETTLE_US = 20_000.0
SPIN_COUNT = "20000"  # how long idle OpenMP threads spin: long between parallel regions, short against the other side's turn


@dataclass(slots=True)
class BaselineProcess:
    """Implements ``evaluator.warm.WarmProcess``."""

    child: Child
    control: socket.socket
    sequence: int = 0

    @property
    def pid(self) -> int:
        """Process id."""
        return self.child.pid

    def ask(self, message: Mapping[str, object], files: Sequence[int] = ()) -> dict[str, Any] | str:
        """See ``evaluator.warm.WarmProcess``."""
        try:
            answer = exchange(self.control, message, files, CONTROL_DEADLINE_S)
        except TimeoutError:
            self.child.end()
            return f"no answer within {CONTROL_DEADLINE_S:g} s"
        return self._ended() if answer is None else answer

    def run(self, slots: Sequence[int], deadline_s: float) -> float | str:
        """See ``evaluator.warm.WarmProcess``. Waits afterwards, outside the clock, until its threads have stopped spinning."""
        self.sequence += 1
        command = COMMAND.pack(self.sequence, *slot_fields(slots, MOST_SLOTS))
        answer = self.child.exchange(command, deadline_s)
        if answer.timed_out:
            return f"The baseline was not done after {deadline_s:g} s."
        if len(answer.record) != RECORD.size:
            return self._ended()
        if RECORD.unpack(answer.record) != (self.sequence, True):
            return f"The baseline failed: {self.ask({'do': 'explain'})}"
        self.child.settle(SETTLE_US)
        return answer.elapsed_us

    def end(self) -> None:
        """See ``evaluator.warm.WarmProcess``."""
        self.control.close()
        self.child.end()

    def _ended(self) -> str:
        self.child.end(grace_s=1.0)
        return f"the baseline's process ended: {self.child.complaint[-1000:]}"


def warm_pool(
    cores: Sequence[int], clock_ns: Clock, on_spawner: Callable[[Callable[[], Child]], Child]
) -> WarmPool[BaselineProcess]:
    """Processes that run on ``cores``; ``on_spawner`` runs a function in the thread that owns children."""
    return WarmPool(lambda folder: _start_process(folder, cores, clock_ns, on_spawner))


def _start_process(
    folder: Path, cores: Sequence[int], clock_ns: Clock, on_spawner: Callable[[Callable[[], Child]], Child]
) -> BaselineProcess:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    names = ",".join(str(core) for core in cores)

    def argv(command: int, record: int) -> Sequence[str]:
        module = (sys.executable, "-m", "evaluator.cpu.baseline_child")
        return (*module, str(theirs.fileno()), str(command), str(record), str(folder), names)

    with theirs:
        child = on_spawner(
            lambda: spawn(
                argv,
                keep_fds=(theirs.fileno(),),
                environment=_environment(len(cores)),
                record_bytes=RECORD.size,
                clock_ns=clock_ns,
            )
        )
    return BaselineProcess(child, ours)


def _environment(threads: int) -> dict[str, str]:
    number = str(threads)
    ours = {"OMP_NUM_THREADS": number, "MKL_NUM_THREADS": number, "OPENBLAS_NUM_THREADS": number, "GOMP_SPINCOUNT": SPIN_COUNT}
    return python_environment() | ours


def start_baseline(
    pool: WarmPool[BaselineProcess], folder: Path, baseline: str, resolved: Resolved, scenario: Scenario, slots: int
) -> BaselineSide[BaselineProcess] | Fault:
    """A side with fresh buffers on a warm process."""
    plain = replace(resolved, workspaces=())
    folder = folder.resolve()
    try:
        held = Held(pool=pool, folder=folder, process=pool.take(folder))
    except OSError as error:
        return baseline_fault(f"The baseline's process could not be started: {error}", plain)
    memory = Memory(plain, slots)
    side = BaselineSide(plain, slots, held, memory, lambda: _damage(memory, plain))
    bound = side.bind(baseline, scenario, {"blocks": _blocks(memory)}, (memory.inputs_fd, memory.scratch_fd))
    if isinstance(bound, Fault):
        side.close()
        return bound
    return side


def _blocks(memory: Memory) -> list[dict[str, object]]:
    """Where each buffer lies in the two files, for the child."""
    return [
        {
            "name": block.buffer.name,
            "role": block.buffer.role,
            "slot": block.slot,
            "start": block.span.start,
            "bytes": block.bytes,
            "dtype": block.buffer.dtype,
            "shape": block.buffer.shape,
        }
        for block in memory.blocks
    ]


def _damage(memory: Memory, resolved: Resolved) -> str | None:
    found = memory.damage()
    return None if found is None else explain_damage(found, resolved).message
