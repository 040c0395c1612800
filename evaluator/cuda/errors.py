"""What went wrong on the device, as a verdict with one message that says what to do.

Codes are those of CUresult in NVIDIA's driver documentation.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evaluator.cuda.layout import Damage
from evaluator.outcome import Fault, Stage, Verdict
from evaluator.plan.resolved import Resolved, ResolvedLaunch

ILLEGAL_ADDRESS = 700
BOUNDS_ADVICE = "Check bounds where the shape is no multiple of a tile."
DEVICE_ERRORS: Mapping[int, tuple[Verdict, str]] = {
    700: (
        Verdict.OUT_OF_BOUNDS,
        "read or wrote outside its buffers (illegal address). Every buffer ends at unmapped memory. " + BOUNDS_ADVICE,
    ),
    702: (Verdict.TIMEOUT, "ran until the driver's own time limit. Look for a loop that can't end."),
    710: (Verdict.CRASH, "failed an assertion. Remove what the assertion guards against."),
    714: (Verdict.CRASH, "overflowed its stack or corrupted it. Use smaller local arrays, shared memory or a workspace."),
    715: (
        Verdict.CRASH,
        "reached an illegal instruction. Look for trap, a missing return, or an instruction with operands it doesn't take.",
    ),
    716: (
        Verdict.CRASH,
        "used a misaligned address. Vector loads and TMA need addresses that are multiples of their size; tensors start at "
        "multiples of 256 bytes, rows only at multiples of their length.",
    ),
    717: (Verdict.CRASH, "used an address of one kind of memory as another. Convert with __cvta_generic_to_shared."),
    718: (Verdict.CRASH, "jumped to an invalid address. Look for smashed local arrays and bad function pointers."),
    719: (
        Verdict.CRASH,
        "stopped at a trap or failed in a way the device doesn't tell. Look for __trap, a wrong mbarrier or tensor map operand, "
        "or a shared-memory address out of range.",
    ),
    721: (Verdict.CRASH, "left tensor memory allocated. Free what tcgen05.alloc took before the last warp exits."),
}
"""What an execution may end with that is the candidate's doing, and why."""

LAUNCH_CALLS = frozenset({"cuLaunchKernelEx", "cuGraphInstantiate", "cuGraphLaunch", "cuFuncSetAttribute", "cuModuleGetFunction"})
LAUNCH_ERRORS: Mapping[int, str] = {
    1: "a value is outside what this device takes",
    500: "the cubin has no such kernel",
    701: "a block needs more registers, threads or shared memory than a multiprocessor has",
    720: "a cooperative grid must fit on the device at once, and this one doesn't",
    801: "this device doesn't support what the launch asks for",
    912: "the device can't schedule a cluster of this size with these resources",
}

SLOT_ALLOWANCE_US = 2_000.0
RUN_ALLOWANCE_US = 500_000.0
"""Wall time beside the events that a run may take on a busy host: flushes and launches of each slot, and being scheduled late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A driver call that failed in the candidate's process; ``launch`` as in ``evaluator.cuda.driver.CudaError``."""

    name: str
    code: int
    call: str
    launch: int | None


def fault(verdict: Verdict, message: str, resolved: Resolved, detail: str = "") -> Fault:
    """A fault of one scenario."""
    return Fault(verdict=verdict, stage=Stage.CHECK, message=message, detail=detail, scenario=resolved.scenario)


def explain_failure(failure: Failure, resolved: Resolved) -> Fault:
    """The verdict on a driver error. What the candidate can't have caused is HARNESS_FAULT."""
    evidence = f"{failure.call}: {failure.name} ({failure.code})"
    where = f"{_kernels(failure.launch, resolved)} in {resolved.scenario}"
    if failure.call == "cuTensorMapEncodeTiled":
        names = ", ".join(each.name for each in resolved.tensor_maps)
        text = f"The driver refuses a tensor map ({names}) in {resolved.scenario}. Check box, split, swizzle and strides."
        return fault(Verdict.LAUNCH_ERROR, text, resolved, evidence)
    if failure.code in DEVICE_ERRORS:
        verdict, what = DEVICE_ERRORS[failure.code]
        return fault(verdict, f"{where} {what}", resolved, evidence)
    if failure.call in LAUNCH_CALLS and failure.code in LAUNCH_ERRORS:
        asked = "" if failure.launch is None else f" It asks for {_asked(resolved.launches[failure.launch])}."
        text = f"{where} can't be launched: {LAUNCH_ERRORS[failure.code]}.{asked} Ask for less, or make plan and kernel agree."
        return fault(Verdict.LAUNCH_ERROR, text, resolved, evidence)
    text = (
        f"The device failed while {where} was loaded or run: {evidence}. Evaluate again; see `askevolve doctor` if it persists."
    )
    return fault(Verdict.HARNESS_FAULT, text, resolved, evidence)


def explain_timeout(deadline_s: float, resolved: Resolved) -> Fault:
    """TIMEOUT of an execution."""
    text = (
        f"{_kernels(None, resolved)} in {resolved.scenario} was not done after {deadline_s:g} s. Look for a loop that can't end, "
        "an mbarrier whose expected bytes or arrivals don't come, and blocks that wait for blocks that don't run."
    )
    return fault(Verdict.TIMEOUT, text, resolved)


def explain_mutation(name: str, resolved: Resolved) -> Fault:
    """INPUT_MUTATED of an input."""
    text = (
        f"{_kernels(None, resolved)} in {resolved.scenario} wrote the input {name!r}; inputs are read-only. Write to an output."
    )
    return fault(Verdict.INPUT_MUTATED, text, resolved)


def explain_damage(damage: Damage, resolved: Resolved) -> Fault:
    """The verdict on memory that isn't as honest executions leave it."""
    name, where = damage.block.buffer.name, f"{_kernels(None, resolved)} in {resolved.scenario}"
    if damage.what == "input":
        return explain_mutation(name, resolved)
    if damage.what == "reset":
        text = (
            f"{where} leaves the workspace {name!r}, declared self_resetting, not all zero (first at byte "
            f"{damage.distance_bytes}). Reset it in the kernel, or drop self_resetting."
        )
        return fault(Verdict.STALE_OUTPUT, text, resolved)
    place = f"{damage.distance_bytes} bytes {'before the start' if damage.what == 'before' else 'past the end'}"
    text = f"{where} wrote {place if damage.distance_bytes else 'right past the end'} of {name!r}. {BOUNDS_ADVICE}"
    return fault(Verdict.OUT_OF_BOUNDS, text, resolved)


def explain_times(elapsed_us: Any, wall_us: float, slots: int, resolved: Resolved) -> Fault | None:
    """What is wrong with the event times of a run that took ``wall_us`` by this process's clock, None for plausible ones."""
    if len(elapsed_us) != slots or not all(0.0 <= each < float("inf") for each in elapsed_us):
        text = f"The device reported {elapsed_us} us for {slots} executions in {resolved.scenario}. Evaluate again."
        return fault(Verdict.HARNESS_FAULT, text, resolved)
    total_us = sum(elapsed_us)
    if total_us > wall_us:
        text = (
            f"The device's events add up to {total_us:.0f} us in {resolved.scenario}, but only {wall_us:.0f} us passed: the "
            "events can't be trusted. Evaluate again."
        )
        return fault(Verdict.HARNESS_FAULT, text, resolved)
    unexplained_us = wall_us - total_us - slots * SLOT_ALLOWANCE_US - RUN_ALLOWANCE_US
    if unexplained_us > max(total_us, 0.0):
        text = (
            f"The executions in {resolved.scenario} took {wall_us:.0f} us, of which their events show {total_us:.0f}. Evaluate "
            "again; if it persists, the kernel tampers with the events: keep to its own buffers."
        )
        return fault(Verdict.HARNESS_FAULT, text, resolved)
    return None


def _kernels(launch: int | None, resolved: Resolved) -> str:
    if launch is not None:
        return resolved.launches[launch].kernel
    return " or ".join(dict.fromkeys(each.kernel for each in resolved.launches))


def _asked(launch: ResolvedLaunch) -> str:
    x, y, z = launch.block
    parts = [f"a grid of {launch.grid}", f"{x * y * z} threads", f"{launch.shared_bytes} bytes of dynamic shared memory"]
    if launch.cluster != (1, 1, 1):
        parts.append(f"clusters of {launch.cluster}")
    if launch.cooperative:
        parts.append("a cooperative launch")
    return ", ".join(parts)
