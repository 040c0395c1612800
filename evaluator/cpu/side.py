"""A candidate's side of a race: its process, its memory, and the suspicion that it works when it should not."""

import os
import random
import secrets
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from evaluator.backend import Array, Facts, Program, Ran
from evaluator.cpu.child import Answer, Child, Clock, slot_fields, spawn
from evaluator.cpu.faults import (
    READY,
    RECORD,
    explain_damage,
    explain_end,
    explain_record,
    fault,
    is_done,
    unpack,
)
from evaluator.cpu.layout import Layout, make_layout
from evaluator.cpu.memory import Memory
from evaluator.outcome import Fault, Verdict
from evaluator.plan.resolved import Resolved

COMMAND = struct.Struct("<2QI251I")
START_DEADLINE_S = 30.0
SETTLE_US = 150.0
HIDDEN_ALLOWED_US = 3000.0
HIDDEN_ALLOWED_SHARE = 0.005


class CandidateSide:
    """Implements ``evaluator.backend.Side`` for a sealed host process."""

    def __init__(self, resolved: Resolved, slots: int, threads: int, memory: Memory, layout: Layout, child: Child) -> None:
        self.slots = slots
        self.facts: Facts = {}
        self._resolved, self._threads = resolved, threads
        self._memory, self._layout, self._child = memory, layout, child
        self._random = random.Random(secrets.randbits(64))
        self._dead: Fault | None = None
        self._quiet_ns = 0
        self._hidden_us = 0.0
        self._elapsed_us = 0.0

    @property
    def pid(self) -> int:
        """Process id of the candidate's process."""
        return self._child.pid

    def await_ready(self) -> Fault | None:
        """Wait until the process is sealed. What goes wrong before that is never the candidate's doing."""
        answer = self._child.exchange(b"", START_DEADLINE_S)
        if len(answer.record) != RECORD.size or unpack(answer.record).kind != READY:
            self._child.end(grace_s=0.0 if answer.timed_out else 1.0)
            return fault(
                Verdict.HARNESS_FAULT,
                f"The candidate's process could not be started: {self._child.complaint or 'no message'}",
                self._resolved,
            )
        self._child.remember_threads()
        self._child.settle(10_000.0)
        self._quiet_ns = self._child.cpu_ns()
        return None

    def fill(self, slot: int, inputs: Mapping[str, Array], poison: int) -> None:
        """See ``evaluator.backend.Side``."""
        self._memory.fill(slot, inputs, poison)

    def run(self, slots: Sequence[int], deadline_s: float) -> Ran | Fault:
        """See ``evaluator.backend.Side``. At most 251 slots a call."""
        if self._dead is not None:
            return self._dead
        suspicion = self._suspicion()
        if suspicion is not None:
            return self._die(suspicion)
        sequence = secrets.randbits(64)
        command = COMMAND.pack(sequence, self._random.getrandbits(64), *slot_fields(slots, self.slots))
        answer = self._child.exchange(command, deadline_s)
        if not answer.record:
            return self._die(self._explain_silence(answer, deadline_s))
        if not is_done(answer.record, sequence):
            return self._die(explain_record(answer.record, self._layout, self._resolved))
        self._child.settle(SETTLE_US)
        now_ns = self._child.cpu_ns()
        most_us = self._threads * answer.elapsed_us
        self._hidden_us += max(0.0, (now_ns - self._quiet_ns) / 1000 - most_us)
        self._elapsed_us += answer.elapsed_us
        self._quiet_ns = now_ns
        return Ran(elapsed_us=answer.elapsed_us)

    def read(self, slot: int) -> Mapping[str, Array]:
        """See ``evaluator.backend.Side``."""
        return self._memory.outputs(slot)

    def audit(self) -> Fault | None:
        """See ``evaluator.backend.Side``."""
        if self._dead is not None:
            return self._dead
        suspicion = self._suspicion()
        if suspicion is None:
            damage = self._memory.damage()
            suspicion = explain_damage(damage, self._resolved) if damage is not None else None
        return self._die(suspicion) if suspicion is not None else None

    def close(self) -> None:
        """See ``evaluator.backend.Side``."""
        self._child.end()
        self._memory.close()

    def _die(self, reason: Fault) -> Fault:
        self._dead = reason
        self._child.end()
        return reason

    def _explain_silence(self, answer: Answer, deadline_s: float) -> Fault:
        if answer.timed_out:
            text = f"Not done after {deadline_s:g} s. Look for a loop that can't end or tasks that wait for one another."
            return fault(Verdict.TIMEOUT, text, self._resolved)
        status = self._child.end(grace_s=2.0)
        return explain_end(status, self._resolved)

    def _suspicion(self) -> Fault | None:
        """What it did since "done": reports that nobody asked for, CPU time that no window covers."""
        now_ns = self._child.cpu_ns()
        self._hidden_us += (now_ns - self._quiet_ns) / 1000
        self._quiet_ns = now_ns
        if self._hidden_us > HIDDEN_ALLOWED_US + HIDDEN_ALLOWED_SHARE * self._elapsed_us:
            ms = self._hidden_us / 1000
            text = f"The candidate computed for {ms:.1f} ms outside its timed window. A kernel returns when all is done."
            return fault(Verdict.SANDBOX, text, self._resolved)
        if not self._child.unread():
            return None
        answer = self._child.exchange(b"", 1.0)
        if not answer.record:
            return explain_end(self._child.end(grace_s=2.0), self._resolved)
        return explain_record(answer.record, self._layout, self._resolved)


def start_candidate(
    program: Program,
    slots: int,
    *,
    host: Path,
    cores: Sequence[int],
    clock_ns: Clock,
    on_spawner: Callable[[Callable[[], Child]], Child],
) -> CandidateSide | Fault:
    """Start, map, load and seal; ``on_spawner`` runs a function in the thread that owns children."""
    try:
        memory = Memory(program.resolved, slots)
    except OSError as error:
        return fault(Verdict.HARNESS_FAULT, f"No memory for {slots} slots: {error}. Use fewer.", program.resolved)
    layout = make_layout(program.resolved, memory, slots, cores, random.Random(secrets.randbits(64)))
    configuration = os.memfd_create("configuration", os.MFD_CLOEXEC)
    os.write(configuration, layout.configuration)
    keep = (configuration, memory.inputs_fd, memory.scratch_fd, layout.constants_fd)

    def argv(command: int, record: int) -> Sequence[str]:
        return (str(host), str(configuration), str(command), str(record), str(os.getpid()), str(program.build.path))

    try:
        child = on_spawner(lambda: spawn(argv, keep_fds=keep, environment={}, record_bytes=RECORD.size, clock_ns=clock_ns))
    except OSError as error:
        memory.close()
        text = f"The candidate's process could not be started: {error}"
        return fault(Verdict.HARNESS_FAULT, text, program.resolved)
    finally:
        os.close(configuration)
        os.close(layout.constants_fd)
    side = CandidateSide(program.resolved, slots, len(cores), memory, layout, child)
    failed = side.await_ready()
    if failed is not None:
        side.close()
        return failed
    return side
