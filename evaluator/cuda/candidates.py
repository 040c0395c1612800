"""The processes of candidates on one GPU: which candidate has which, and the end of those that have failed."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from evaluator.backend import Program
from evaluator.cuda.allocations import Pool
from evaluator.cuda.driver import CudaError
from evaluator.cuda.errors import fault
from evaluator.cuda.memory import with_room
from evaluator.cuda.processes import Child, Clock, Zygote, ZygoteError, environment
from evaluator.cuda.side import CandidateSide
from evaluator.outcome import Fault, Verdict

OPEN_DEADLINE_S = 30.0
DEVICE_VERDICTS = frozenset({Verdict.CRASH, Verdict.OUT_OF_BOUNDS, Verdict.INPUT_MUTATED, Verdict.TIMEOUT, Verdict.HARNESS_FAULT})
"""Verdicts after which the device itself may be at fault or have suffered."""

Probe = Callable[[], str | None]
"""What is wrong with the device, by the word of a fresh process; None for a healthy one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Idle:
    candidate_id: str
    child: Child


class CandidateProcesses:
    """Starts sides of candidates. At most one idle process is kept, for further scenarios of the candidate that it belongs to.

    ``pool`` holds the buffers' memory; ``probe`` is asked about the device's health after an error that may have harmed it;
    ``make_room`` frees device memory that others only keep for later.
    """

    def __init__(
        self,
        ordinal: int,
        pool: Pool,
        probe: Probe,
        clock_ns: Clock = time.perf_counter_ns,
        make_room: Callable[[], None] = lambda: None,
    ) -> None:
        self._ordinal, self._pool, self._probe, self._clock_ns = ordinal, pool, probe, clock_ns
        self._make_room = make_room
        self._zygote = Zygote(environment())
        self._idle: _Idle | None = None

    def start(self, program: Program, slots: int) -> CandidateSide | Fault:
        """A side with fresh buffers, loaded and captured. Verdicts: LAUNCH_ERROR, HARNESS_FAULT."""
        resolved = program.resolved
        try:
            child = self._child_of(program.candidate_id)
        except ZygoteError as error:
            return fault(Verdict.HARNESS_FAULT, f"No process for the candidate: {error}", resolved)
        if isinstance(child, str):
            return fault(Verdict.HARNESS_FAULT, f"No CUDA context in the candidate's process: {child}", resolved)
        memory = with_room(resolved, slots, self._pool, self._make_room)
        if isinstance(memory, CudaError):
            self.give(child, program.candidate_id, healthy=True)
            text = f"No device memory for {slots} slots of {resolved.scenario}: {memory}. Use fewer slots."
            return fault(Verdict.HARNESS_FAULT, text, resolved)
        side = CandidateSide(program, slots, memory, child, self)
        failed = side.load()
        if failed is not None:
            side.close()
            return failed
        return side

    def fork(self) -> Child | str:
        """A new process with a context on the device, or why it has none. Raises ZygoteError."""
        child = self._zygote.fork(self._clock_ns)
        answer = child.ask({"do": "open", "ordinal": self._ordinal}, OPEN_DEADLINE_S)
        if answer.fields == {}:
            return child
        self.end(child)
        return f"no answer; {self._zygote.complaint()}" if answer.fields is None else str(dict(answer.fields))

    def give(self, child: Child, candidate_id: str, *, healthy: bool) -> None:
        """Take back a process that holds no buffers; one that isn't healthy is ended."""
        if healthy and not child.ended:
            self._drop_idle()
            self._idle = _Idle(candidate_id=candidate_id, child=child)
        else:
            self.end(child)

    def end(self, child: Child) -> int | None:
        """Kill and reap a process; its exit status, None if that isn't known. A zygote that can't do it is replaced."""
        try:
            child.kill()
        except ZygoteError:
            self._zygote.close()
            self._zygote = Zygote(environment())
        return child.status

    def blame(self, child: Child, reason: Fault) -> Fault:
        """End a process and return ``reason``, or HARNESS_FAULT where the device is sick, which no candidate answers for."""
        self.end(child)
        if reason.verdict not in DEVICE_VERDICTS:
            return reason
        sick = self._probe()
        if sick is None:
            return reason
        text = f"The GPU isn't healthy after {reason.scenario}: {sick}. It stays unused until `askevolve doctor` finds it well."
        detail = f"{reason.verdict}: {reason.message}\n{reason.detail}"
        return replace(reason, verdict=Verdict.HARNESS_FAULT, message=text, detail=detail)

    def complaint(self) -> str:
        """The end of what these processes wrote to stderr."""
        return self._zygote.complaint()

    def close(self) -> None:
        """End all processes. Safe to call twice."""
        self._idle = None
        self._zygote.close()

    def _child_of(self, candidate_id: str) -> Child | str:
        """The candidate's idle process, or a new one. Raises ZygoteError."""
        idle, self._idle = self._idle, None
        if idle is not None and idle.candidate_id == candidate_id:
            return idle.child
        if idle is not None:
            self.end(idle.child)
        try:
            return self.fork()
        except ZygoteError:
            self._zygote.close()
            self._zygote = Zygote(environment())
            return self.fork()

    def _drop_idle(self) -> None:
        idle, self._idle = self._idle, None
        if idle is not None:
            self.end(idle.child)
