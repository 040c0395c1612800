"""Is a side right? Executions under different poisons, an audit, and every output against the float64 reference."""

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from evaluator.arrays import array_module, floats, places
from evaluator.backend import Array, Side
from evaluator.compare import Comparison, compare, largest_difference
from evaluator.dtypes import decode
from evaluator.outcome import Check, Fault, Stage, Verdict
from evaluator.pool import Draw
from evaluator.task_card import TensorSpec

POISONS = 3
TURNS = (0, 1, 1, 0) * 2
"""Which of two poisons repeats run over once results have differed: each slot over both, and so often that results which merely
vary don't follow the poison by chance."""
NEAR_SHARE = 2.0
"""Up to this multiple of the allowance an error is a near miss. The allowance comes from a handful of honest computations, so now
and then an honest kernel lies just above it; fresh inputs tell chance from a mistake, which is wrong on them too."""
FRESH_DRAWS, FRESH_MISSES = 4, 2
"""A near miss is confirmed by so many misses on so many fresh sets of inputs: 1 in 110 for a kernel that lies above its allowance
one time in 25, 69 in 100 for one that does every other time, every one for one that always does."""

ADVICE = {
    Verdict.WRONG: (
        "Compare the loop bounds, the mask and index maps (in attention, the head map) with the task's contract at that place."
    ),
    Verdict.NONFINITE: "Subtract the row's largest score before exponentials and treat fully masked rows as the contract says.",
    Verdict.STALE_OUTPUT: (
        "Write every element of every output, and every workspace element before it is read: the result depends on what was in "
        "memory before."
    ),
    Verdict.NONDETERMINISTIC: (
        "Look for a race (two tasks that write one address, a missing barrier), or for atomics: if their order is meant to vary, "
        "say nondeterministic = true in the plan."
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """Checks of one scenario under one distribution, and the fault they amount to (None: all is right).

    ``near_miss``: the fault is an error of at most NEAR_SHARE times its allowance, and nothing else is wrong.
    """

    checks: tuple[Check, ...]
    fault: Fault | None
    near_miss: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """How to examine a side: the outputs expected of it, how often to repeat, and what the plan says of repeats."""

    outputs: tuple[TensorSpec, ...]
    repeats: int
    deadline_s: float
    rng: np.random.Generator
    nondeterministic: bool = False


def check(side: Side, draw: Draw, examination: Examination, peer: Mapping[str, Array] | None = None) -> Checked:
    """What is wrong with ``side`` on one draw.

    ``peer`` holds the baseline's outputs for the same inputs, undone, without those it doesn't compute; it only fills
    ``baseline_difference``. A fault leaves the side unusable.
    """
    first, second, _ = (int(poison) for poison in examination.rng.permutation(POISONS))
    runs: list[Mapping[str, Array]] = []
    for index in range(max(2, examination.repeats)):
        ran = _execute(side, draw, index, second if index == 1 else first, examination)
        if isinstance(ran, Fault):
            return _ended(ran, draw)
        runs.append(ran)
    again: list[Mapping[str, Array]] = []
    if not examination.nondeterministic and not all(_same(runs[0], other) for other in runs[1:]):
        for index, turn in enumerate(TURNS):
            ran = _execute(side, draw, index, (first, second)[turn], examination)
            if isinstance(ran, Fault):
                return _ended(ran, draw)
            again.append(ran)
    audit = side.audit()
    if audit is not None:
        return _ended(audit, draw)
    undone = [draw.undo(run) for run in (runs if examination.nondeterministic else runs[:1])]
    judged = [_checked(draw, outputs, examination.outputs, peer) for outputs in undone]
    found = next((one for one in judged if one.fault is not None), judged[0])
    return Checked(checks=found.checks, fault=_unsteady(draw, runs, again, examination.outputs)) if again else found


def confirmed(near: Checked, side: Side, fresh: Callable[[], Draw], examination: Examination) -> Checked:
    """What fresh inputs say of a side's near miss: the check that decides against it, or the near miss forgiven, which says so.

    ``fresh`` is asked at most FRESH_DRAWS times. A gross miss decides at once, the last of FRESH_MISSES near ones too.
    """
    misses = 0
    for _ in range(FRESH_DRAWS):
        found = check(side, fresh(), examination)
        misses += found.fault is not None
        if found.fault is not None and (misses == FRESH_MISSES or not found.near_miss):
            return found
    text = f"above its allowance, right on {FRESH_DRAWS - misses} of {FRESH_DRAWS} fresh sets of inputs"
    checks = tuple(one if one.passed else dataclasses.replace(one, passed=True, message=text) for one in near.checks)
    return Checked(checks=checks, fault=None)


def judge(draw: Draw, outputs: Mapping[str, Array], specs: Sequence[TensorSpec]) -> Fault | None:
    """What is wrong with the outputs of one timed execution, as they were read. A near miss is let go: precision is settled by
    ``check``, while thousands of timed executions would each be a chance to fail by accident.
    """
    undone = draw.undo(outputs)
    for spec in specs:
        comparison = compare(draw.member.expected[spec.name], undone[spec.name], draw.member.tolerances[spec.name])
        if not (comparison.passed or _is_near(comparison)):
            return _fault(draw, spec, undone[spec.name], comparison, Stage.TIME)
    return None


def peer_outputs(side: Side, draw: Draw, examination: Examination, leaves_out: Collection[str]) -> Mapping[str, Array] | Fault:
    """The outputs of a baseline for a draw, undone, without those that it doesn't compute."""
    ran = _execute(side, draw, 0, int(examination.rng.integers(POISONS)), examination)
    if isinstance(ran, Fault):
        return ran
    return {name: array for name, array in draw.undo(ran).items() if name not in leaves_out}


def _execute(side: Side, draw: Draw, index: int, poison: int, examination: Examination) -> Mapping[str, Array] | Fault:
    slot = index % side.slots
    side.fill(slot, draw.inputs, poison)
    ran = side.run([slot], examination.deadline_s)
    if isinstance(ran, Fault):
        return ran
    outputs = side.read(slot)
    return {spec.name: outputs[spec.name] for spec in examination.outputs}


def _ended(fault: Fault, draw: Draw) -> Checked:
    return Checked(checks=(), fault=dataclasses.replace(fault, scenario=draw.member.scenario.name))


def _same(one: Mapping[str, Array], other: Mapping[str, Array]) -> bool:
    """Whether all outputs agree bit by bit."""
    return all(bool(array_module(one[name]).array_equal(_bits(one[name]), _bits(other[name]))) for name in one)


def _bits(array: Array) -> Array:
    contiguous = array_module(array).ascontiguousarray(array)
    return cast(Array, contiguous.view(np.dtype(f"uint{8 * array.dtype.itemsize}")))


def _is_near(comparison: Comparison) -> bool:
    return comparison.share is not None and comparison.share <= NEAR_SHARE


def _checked(draw: Draw, outputs: Mapping[str, Array], specs: Sequence[TensorSpec], peer: Mapping[str, Array] | None) -> Checked:
    """A check per output of one execution, with the fault of the first that failed."""
    checks = []
    fault: Fault | None = None
    near = True
    for spec in specs:
        got, tolerance = outputs[spec.name], draw.member.tolerances[spec.name]
        comparison = compare(draw.member.expected[spec.name], got, tolerance)
        found = None if comparison.passed else _fault(draw, spec, got, comparison, Stage.CHECK)
        fault = fault or found
        near = near and _is_near(comparison)
        difference = None if peer is None or spec.name not in peer else largest_difference(got, peer[spec.name], tolerance.dtype)
        checks.append(
            Check(
                scenario=draw.member.scenario.name,
                distribution=draw.member.distribution,
                tensor=spec.name,
                passed=comparison.passed,
                max_error=comparison.max_error,
                max_allowed=comparison.max_allowed,
                rms_error=comparison.rms_error,
                rms_allowed=comparison.rms_allowed,
                baseline_difference=difference,
                message="" if found is None else found.message,
            )
        )
    return Checked(checks=tuple(checks), fault=fault, near_miss=fault is not None and near)


def _fault(draw: Draw, spec: TensorSpec, got: Array, comparison: Comparison, stage: Stage) -> Fault:
    place = _place(draw, spec, got)
    advice = f". {ADVICE[comparison.kind]}" if place else ""
    message = f"{spec.name} on {draw.member.distribution} inputs: {place or comparison.message}{advice}"
    return Fault(verdict=comparison.kind, stage=stage, message=message, scenario=draw.member.scenario.name)


def _place(draw: Draw, spec: TensorSpec, got: Array) -> str:
    """Where the elements lie that are off by more than allowed, the first of them with both values; empty: none is."""
    expected = draw.member.expected[spec.name]
    if got.shape != expected.shape:
        return ""
    xp = array_module(expected)
    values = decode(got, draw.member.tolerances[spec.name].dtype).astype(np.float64)
    row_allowed = draw.member.tolerances[spec.name].row_allowed
    with np.errstate(invalid="ignore"):
        near = xp.abs(values - expected) <= row_allowed[..., np.newaxis]
    wrong = places(~(near | (values == expected) | (xp.isnan(values) & xp.isnan(expected))))
    if wrong is None:
        return ""
    at = ", ".join(f"{axis}={i}" for axis, i in zip(spec.axes, wrong.first, strict=True))
    spread = ", ".join(f"{axis} {low}..{high}" for axis, low, high in zip(spec.axes, wrong.low, wrong.high, strict=True))
    found, want, allowed = floats(values[wrong.first], expected[wrong.first], row_allowed[wrong.first[:-1]])
    return (
        f"first wrong at {at}: got {found:.6g}, expected {want:.6g} "
        f"(error allowed there {allowed:.3g}); {wrong.count} of {values.size} elements are wrong, within {spread}"
    )


def _unsteady(
    draw: Draw, runs: Sequence[Mapping[str, Array]], again: Sequence[Mapping[str, Array]], specs: Sequence[TensorSpec]
) -> Fault:
    """STALE_OUTPUT where results follow the poison (equal under an equal one), else NONDETERMINISTIC."""
    under_first = [*runs[2:], *(run for run, turn in zip(again, TURNS, strict=True) if turn == 0)]
    under_second = [run for run, turn in zip(again, TURNS, strict=True) if turn == 1]
    follows = all(_same(runs[0], other) for other in under_first) and all(_same(runs[1], other) for other in under_second)
    verdict = Verdict.STALE_OUTPUT if follows else Verdict.NONDETERMINISTIC
    other = runs[1] if follows else next(run for run in (*runs[1:], *again) if not _same(runs[0], run))
    spec = next(spec for spec in specs if not _same({"": runs[0][spec.name]}, {"": other[spec.name]}))
    one, two = (draw.undo(run)[spec.name] for run in (runs[0], other))
    differing = places(_bits(one) != _bits(two))
    assert differing is not None  # undoing is exact, so what differs before differs after
    at = ", ".join(f"{axis}={i}" for axis, i in zip(spec.axes, differing.first, strict=True))
    cause = "the same inputs over different memory contents" if follows else "the same inputs again"
    return Fault(
        verdict=verdict,
        stage=Stage.CHECK,
        message=f"{spec.name} differs with {cause} in {differing.count} of {one.size} elements, first at {at}. {ADVICE[verdict]}",
        scenario=draw.member.scenario.name,
    )
