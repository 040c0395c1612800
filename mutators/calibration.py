"""Predictions held against outcomes: how well each answerer knows, before the race, what its edit will give."""

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from evaluator.outcome import Outcome, Timing
from evaluator.task_card import TaskCard
from mutators.measured import timings_of

EVERYWHERE = "all"
"""The region that stands for every scenario."""

HEADINGS = (
    "answerer",
    "region",
    "predictions",
    "measured",
    "off by",
    "within interval",
    "right direction",
    "promised",
    "found",
    "bias",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A child's speed ratio to its parent in one region (above 1: faster), with its interval."""

    ratio: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """One predicted ratio beside the measured one.

    ``measured`` is None where the child or its parent has no times there: it failed, or the region isn't one of the task's.
    """

    answerer: str
    region: str
    predicted: float
    measured: Measured | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """How one answerer's predictions for one region came out. Means are over predictions that were measured, None without any.

    ``log_error``: mean of |log(predicted / measured)|. ``within``: share of predictions inside the measured interval.
    ``direction``: share that were right about faster or not. ``promised`` and ``found``: geometric means of the predicted and
    of the measured ratios. ``bias``: mean of log(predicted / measured); above 0 the answerer promises more than it gives.
    """

    answerer: str
    region: str
    predictions: int
    measured: int
    log_error: float | None = None
    within: float | None = None
    direction: float | None = None
    promised: float | None = None
    found: float | None = None
    bias: float | None = None


def held_of(
    answerer: str, prediction: Mapping[str, float], outcome: Outcome | None, parent: Outcome | None, card: TaskCard
) -> tuple[Held, ...]:
    """An answer's predictions, each beside what was measured; ``answerer`` is the model's name where there is a model."""
    return tuple(
        Held(answerer=answerer, region=region, predicted=ratio, measured=measured_in(region, outcome, parent, card))
        for region, ratio in prediction.items()
    )


def measured_in(region: str, outcome: Outcome | None, parent: Outcome | None, card: TaskCard) -> Measured | None:
    """The child's ratio to its parent over the region's scenarios in which both raced the same opponent, None without any.

    Geometric mean of the quotients of both ratios. The interval takes half widths in log space as independent errors and so
    adds their squares.
    """
    if outcome is None or parent is None or outcome.fitness is None or parent.fitness is None:
        return None
    inside = {scenario.name for scenario in card.scenarios if region in {EVERYWHERE, scenario.region}}
    return measured_over(inside, outcome, parent)


def measured_over(scenarios: Set[str], outcome: Outcome, parent: Outcome) -> Measured | None:
    """The same over the scenarios of these names, fitness or not: a child that was stopped early counts where it was timed."""
    before = {timing.scenario: timing for timing in timings_of(parent) if timing.scenario in scenarios}
    found = [(timing, before[timing.scenario]) for timing in timings_of(outcome) if timing.scenario in before]
    pairs = [(child, old) for child, old in found if child.opponent == old.opponent]
    if not pairs:
        return None
    mean = sum(math.log(child.ratio / old.ratio) for child, old in pairs) / len(pairs)
    half = math.sqrt(sum(_half(child) ** 2 + _half(old) ** 2 for child, old in pairs)) / len(pairs)
    return Measured(ratio=math.exp(mean), low=math.exp(mean - half), high=math.exp(mean + half))


def calibrate(held: Iterable[Held]) -> tuple[Calibration, ...]:
    """One calibration for each answerer and region, in the order of their names; ``all`` comes first."""
    groups: dict[tuple[str, str], list[Held]] = {}
    for one in held:
        groups.setdefault((one.answerer, one.region), []).append(one)
    order = sorted(groups, key=lambda key: (key[0], key[1] != EVERYWHERE, key[1]))
    return tuple(_calibration(answerer, region, groups[answerer, region]) for answerer, region in order)


def calibration_rows(calibrations: Sequence[Calibration]) -> tuple[tuple[str, ...], ...]:
    """The table's rows below ``HEADINGS``, as texts; a dash where nothing was measured."""
    return tuple(
        (
            one.answerer,
            one.region,
            str(one.predictions),
            str(one.measured),
            _percent(one.log_error),
            _share(one.within),
            _share(one.direction),
            _ratio(one.promised),
            _ratio(one.found),
            _percent(one.bias, signed=True),
        )
        for one in calibrations
    )


def calibration_text(calibrations: Sequence[Calibration]) -> str:
    """The table in aligned columns and a line that says how to read it; a sentence where nothing was predicted."""
    if not calibrations:
        return "Nothing was predicted."
    rows = (HEADINGS, *calibration_rows(calibrations))
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    lines = ["  ".join(_padded(column, cell, widths[column]) for column, cell in enumerate(row)).rstrip() for row in rows]
    reading = "off by: typical factor between predicted and measured ratio; bias above 0: promises more than it gives."
    return "\n".join([*lines, reading])


def _padded(column: int, cell: str, width: int) -> str:
    """Names to the left, numbers to the right."""
    return cell.ljust(width) if column < 2 else cell.rjust(width)


def _calibration(answerer: str, region: str, held: Sequence[Held]) -> Calibration:
    pairs = [(one.predicted, one.measured) for one in held if one.measured is not None]
    if not pairs:
        return Calibration(answerer=answerer, region=region, predictions=len(held), measured=0)
    errors = [math.log(predicted / measured.ratio) for predicted, measured in pairs]
    count = len(pairs)
    return Calibration(
        answerer=answerer,
        region=region,
        predictions=len(held),
        measured=count,
        log_error=sum(abs(error) for error in errors) / count,
        within=sum(measured.low <= predicted <= measured.high for predicted, measured in pairs) / count,
        direction=sum((predicted > 1) == (measured.ratio > 1) for predicted, measured in pairs) / count,
        promised=math.exp(sum(math.log(predicted) for predicted, _ in pairs) / count),
        found=math.exp(sum(math.log(measured.ratio) for _, measured in pairs) / count),
        bias=sum(errors) / count,
    )


def _half(timing: Timing) -> float:
    """Half the width of a race's interval, in log space."""
    return math.log(timing.high / timing.low) / 2


def _percent(log: float | None, *, signed: bool = False) -> str:
    return "-" if log is None else f"{100 * math.expm1(log):{'+' if signed else ''}.1f} %"


def _share(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f} %"


def _ratio(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.3f}"
