"""A candidate's side of a race on the GPU: its buffers here, its process, and what to think of what that process answers."""

import os
import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evaluator.backend import Array, Facts, Program, Ran
from evaluator.buffers import size_bytes
from evaluator.cuda.driver import CudaError
from evaluator.cuda.errors import (
    ILLEGAL_ADDRESS,
    Failure,
    explain_damage,
    explain_failure,
    explain_mutation,
    explain_timeout,
    explain_times,
    fault,
)
from evaluator.cuda.execution import Work
from evaluator.cuda.memory import DeviceMemory
from evaluator.cuda.processes import Answer, Child, ZygoteError
from evaluator.cuda.symbols import constant_names
from evaluator.outcome import Fault, Verdict
from evaluator.plan.resolved import Resolved

if TYPE_CHECKING:
    from evaluator.cuda.candidates import CandidateProcesses

LOAD_DEADLINE_S = 60.0
CONTROL_DEADLINE_S = 20.0


class CandidateSide:
    """Implements ``evaluator.backend.Side``. It has ``facts`` once loaded: those of ``launches.launch_facts`` for each kernel.

    The fact ``graph_replays`` tells whether executions are; where the driver can't capture a launch they are plain launches.
    """

    def __init__(self, program: Program, slots: int, memory: DeviceMemory, child: Child, owner: "CandidateProcesses") -> None:
        self.slots = slots
        self.facts: Facts = {}
        self.candidate_id = program.candidate_id
        self._resolved = program.resolved
        self._work = work_of(program, slots)
        self._memory, self._child, self._owner = memory, child, owner
        self._dead: Fault | None = None
        self._open = True

    @property
    def pid(self) -> int:
        """Process id of the candidate's process."""
        return self._child.pid

    def load(self) -> Fault | None:
        """Map the buffers there, load the module, capture the graphs."""
        answer = self._load(self._child, writable_inputs=False)
        if isinstance(answer, Fault):
            return self._die(answer)
        if answer.fields is None or "error" in answer.fields or "broken" in answer.fields:
            return self._die(self._explain(answer, LOAD_DEADLINE_S, ()))
        each = answer.fields["facts"].items()
        self.facts = {f"{kernel}.{name}": value for kernel, values in each for name, value in values.items()}
        self.facts |= {"graph_replays": answer.fields["graphs"]}
        self._memory.hash_inputs = not answer.fields["read_only"]
        return None

    def fill(self, slot: int, inputs: Mapping[str, Array], poison: int) -> None:
        """See ``evaluator.backend.Side``. Arrays of NumPy or CuPy."""
        self._memory.fill(slot, inputs, poison)

    def run(self, slots: Sequence[int], deadline_s: float) -> Ran | Fault:
        """See ``evaluator.backend.Side``. ``elapsed_us`` is device time: the sum of the slots' own, flushes left out."""
        if not slots or not all(0 <= slot < self.slots for slot in slots):
            raise ValueError(f"slots {list(slots)}: a run takes at least one slot, each below {self.slots}")
        if self._dead is not None:
            return self._dead
        self._memory.settle()
        answer = self._child.ask({"do": "run", "slots": list(slots)}, deadline_s)
        if answer.fields is None or "elapsed_us" not in answer.fields:
            return self._die(self._explain(answer, deadline_s, slots))
        elapsed_us = answer.fields["elapsed_us"]
        odd = explain_times(elapsed_us, answer.wall_us, len(slots), self._resolved)
        return self._die(odd) if odd is not None else Ran(elapsed_us=sum(elapsed_us))

    def read(self, slot: int) -> Mapping[str, Any]:
        """See ``evaluator.backend.Side``. CuPy arrays."""
        return self._memory.outputs(slot)

    def audit(self) -> Fault | None:
        """See ``evaluator.backend.Side``."""
        if self._dead is not None:
            return self._dead
        damage = self._memory.damage()
        if damage is not None:
            return self._die(explain_damage(damage, self._resolved))
        answer = self._child.ask({"do": "audit"}, CONTROL_DEADLINE_S)
        if answer.fields is None or "constants_intact" not in answer.fields:
            return self._die(self._explain(answer, CONTROL_DEADLINE_S, ()))
        if not answer.fields["constants_intact"]:
            text = f"A constant table changed while {self._resolved.scenario} ran; constants are read-only, use a workspace."
            return self._die(fault(Verdict.SANDBOX, text, self._resolved))
        return None

    def close(self) -> None:
        """See ``evaluator.backend.Side``. A process that works stays for the candidate's next scenario, without these buffers."""
        if not self._open:
            return
        self._open = False
        healthy = self._dead is None and self._child.ask({"do": "unload"}, CONTROL_DEADLINE_S).fields == {}
        self._owner.give(self._child, self.candidate_id, healthy=healthy)
        self._memory.close()

    def _load(self, child: Child, *, writable_inputs: bool) -> Answer | Fault:
        try:
            shares, descriptors = self._memory.shares()
        except CudaError as error:
            return fault(Verdict.HARNESS_FAULT, f"Buffers can't be shared: {error}. See `askevolve doctor`.", self._resolved)
        try:
            request = {"do": "load", "shares": shares, "writable_inputs": writable_inputs}
            return child.ask(request, LOAD_DEADLINE_S, pickle.dumps(self._work), descriptors)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _die(self, reason: Fault) -> Fault:
        """Kill the process and remember why; the verdict becomes ours if the device turns out to be sick."""
        self._dead = self._owner.blame(self._child, reason)
        return self._dead

    def _explain(self, answer: Answer, deadline_s: float, slots: Sequence[int]) -> Fault:
        if answer.timed_out and slots:
            return explain_timeout(deadline_s, self._resolved)
        if answer.fields is None:
            how = f"gave no answer in {deadline_s:g} s"
            if not answer.timed_out:
                how = f"ended by itself (status {self._owner.end(self._child)})"
            text = f"The candidate's process {how} in {self._resolved.scenario}. Evaluate again."
            return fault(Verdict.HARNESS_FAULT, text, self._resolved, self._owner.complaint())
        if "error" not in answer.fields:
            text = (
                f"The candidate's process failed in our own code in {self._resolved.scenario}. Evaluate again, report the detail."
            )
            return fault(Verdict.HARNESS_FAULT, text, self._resolved, str(answer.fields.get("broken", answer.fields)))
        failure = Failure(**answer.fields["error"])
        explained = explain_failure(failure, self._resolved)
        if slots and (failure.code == ILLEGAL_ADDRESS or (failure.launch is None and len(self._resolved.launches) > 1)):
            return self._diagnose(slots, deadline_s, explained)
        return explained

    def _diagnose(self, slots: Sequence[int], deadline_s: float, first: Fault) -> Fault:
        """A better explanation from a new process that may write inputs and waits for each launch: which fails, or what it wrote.

        ``first`` where no such process can be had or the error is another one.
        """
        self._owner.end(self._child)
        try:
            child = self._owner.fork()
        except ZygoteError:
            return first
        if isinstance(child, str):
            return first
        try:
            if not self._memory.hash_inputs:  # they can't have changed so far
                for slot in slots:
                    self._memory.remember_inputs(slot)
            loaded = self._load(child, writable_inputs=True)
            if isinstance(loaded, Fault) or loaded.fields is None or "facts" not in loaded.fields:
                return first
            for slot in dict.fromkeys(slots):
                self._memory.poison(slot)
                self._memory.settle()
                answer = child.ask({"do": "step", "slot": slot}, deadline_s)
                if answer.fields is None:
                    return first
                if "error" in answer.fields:
                    again = explain_failure(Failure(**answer.fields["error"]), self._resolved)
                    return again if again.verdict is first.verdict else first
        finally:
            self._owner.end(child)
        if first.verdict is not Verdict.OUT_OF_BOUNDS:
            return first
        damage = self._memory.damage()
        changed = damage is not None and damage.what == "input"
        return explain_mutation(damage.block.buffer.name if damage is not None and changed else None, self._resolved)


def work_of(program: Program, slots: int) -> Work:
    """What a candidate's process needs of a program."""
    resolved = program.resolved
    cubin = Path(program.build.path).read_bytes()
    return Work(
        cubin=cubin,
        slots=slots,
        launches=resolved.launches,
        tensor_maps=used_maps(resolved),
        zeros=tuple(
            (each.name, size_bytes(each)) for each in resolved.workspaces if each.init == "zero" and not each.self_resetting
        ),
        constants=constant_names(cubin),
    )


def used_maps(resolved: Resolved) -> tuple[Any, ...]:
    """The tensor maps that some launch takes."""
    wanted = {argument.name for launch in resolved.launches for argument in launch.args}
    return tuple(each for each in resolved.tensor_maps if each.name in wanted)
