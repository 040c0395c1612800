"""Arms side by side: from the traces of runs to what each arm gave, how far they lie apart, and what may be said about that."""

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from results.comparison_contests import Contest, cautions, contest
from results.comparison_statistics import ALPHA, area, begins_at, mean_interval, value_at
from results.comparison_trace import AXES, Gain, Trace

LEVELS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 1.0, 1.05, 1.1, 1.2, 1.3, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0, 10.0)
"""Round ratios of which a few are looked at where nobody names others."""

MOST_LEVELS = 4


class NotComparableError(Exception):
    """The runs have no common scale; the text says what differs, and in which run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """A geometric mean over an arm's runs; ``low`` and ``high`` bound it by a bootstrap over runs, None for one run."""

    ratio: float
    low: float | None
    high: float | None
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """How many of an arm's runs reached a ratio by their search's lower bound, and the median of the answers that it took.

    Runs that didn't reach it count as needing more than any; None where the median is one of them.
    """

    level: float
    runs: int
    answers: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmRow:
    """One arm. ``best`` is over its runs' best, ``area`` by axis the geometric mean of the best ratio so far over what all runs
    spent; ``accepted_share`` is None without answers. Counts are over all its runs.
    """

    name: str
    runs: tuple[Trace, ...]
    best: Mean | None
    verified: int
    answers: int
    evaluations: int
    accepted: int
    accepted_share: float | None
    readded_share: float | None
    rejections: Mapping[str, int]
    verdicts: Mapping[str, int]
    area: Mapping[str, Mean]
    reached: tuple[Reached, ...]
    layers: tuple[Gain, ...]
    moments: tuple[Gain, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Arms in the order given, every pair of them, and what a reader must know; ``ranges``: the part of each axis that all runs
    cover.
    """

    arms: tuple[ArmRow, ...]
    contests: tuple[Contest, ...]
    cautions: tuple[str, ...]
    levels: tuple[float, ...]
    ranges: Mapping[str, tuple[float, float]]


def comparison_of(traces: Sequence[Trace], levels: Sequence[float] = ()) -> Comparison:
    """The comparison of runs, grouped by their arm. Raises NotComparableError where their numbers have no common scale."""
    _refuse(traces)
    names = tuple(dict.fromkeys(trace.arm for trace in traces))
    ranges = {axis: common for axis in AXES if (common := _common(traces, axis)) is not None}
    chosen = tuple(sorted(levels)) or _levels(traces)
    arms = tuple(_arm(name, [trace for trace in traces if trace.arm == name], ranges, chosen) for name in names)
    pairs = [(one, other) for place, one in enumerate(arms) for other in arms[place + 1 :]]
    alpha = ALPHA / max(1, len(pairs))
    return Comparison(
        arms=arms,
        contests=tuple(contest(one.runs, other.runs, ranges.get("answers"), alpha) for one, other in pairs),
        cautions=cautions(traces),
        levels=chosen,
        ranges=ranges,
    )


def _refuse(traces: Sequence[Trace]) -> None:
    """NotComparableError where a term isn't the same for all runs, or a run has nothing measured."""
    if empty := [trace.name for trace in traces if trace.best is None]:
        raise NotComparableError(f"nothing is measured yet in {', '.join(empty)}; leave it out, or go on with it first")
    lines = []
    for term in dict.fromkeys(term for trace in traces for term in trace.terms):
        found: dict[str, list[str]] = {}
        for trace in traces:
            found.setdefault(trace.terms.get(term, ""), []).append(trace.name)
        if len(found) > 1:
            lines += [f"  {term}: " + "; ".join(f"{value or 'none'} in {', '.join(names)}" for value, names in found.items())]
    if lines:
        raise NotComparableError("these runs can't be compared, since they differ in:\n" + "\n".join(lines))


def _arm(name: str, runs: Sequence[Trace], ranges: Mapping[str, tuple[float, float]], levels: Sequence[float]) -> ArmRow:
    answers, accepted = sum(run.last.answers for run in runs), sum(run.accepted for run in runs)
    readded = [run.readded_share for run in runs if run.readded_share is not None]
    return ArmRow(
        name=name,
        runs=tuple(runs),
        best=_mean([math.log(run.best.ratio) for run in runs if run.best]),
        verified=sum(run.best is not None and run.best.verified for run in runs),
        answers=answers,
        evaluations=sum(run.last.evaluations for run in runs),
        accepted=accepted,
        accepted_share=accepted / answers if answers else None,
        readded_share=statistics.fmean(readded) if readded else None,
        rejections=_summed(run.rejections for run in runs),
        verdicts=_summed(run.verdicts for run in runs),
        area={axis: mean for axis in ranges if (mean := _mean(_areas(runs, axis, ranges[axis])))},
        reached=tuple(_reached(runs, level) for level in levels),
        layers=_joined([gain for run in runs for gain in run.layers]),
        moments=_joined([gain for run in runs for gain in run.moments]),
    )


def _common(traces: Sequence[Trace], axis: str) -> tuple[float, float] | None:
    """From where the last run has a ratio to where the first one ends; None where that is nothing."""
    begins = [begins_at(trace.points, axis) for trace in traces]
    if any(begin is None for begin in begins):
        return None
    start, end = max(begin for begin in begins if begin is not None), min(float(getattr(trace.last, axis)) for trace in traces)
    return (start, end) if end > start else None


def _areas(runs: Sequence[Trace], axis: str, common: tuple[float, float]) -> list[float]:
    return [found for run in runs if (found := area(run.points, axis, *common)) is not None]


def _mean(logs: Sequence[float]) -> Mean | None:
    if not logs:
        return None
    low, high = mean_interval(logs) or (None, None)
    bounds = {"low": None if low is None else math.exp(low), "high": None if high is None else math.exp(high)}
    return Mean(ratio=math.exp(statistics.fmean(logs)), runs=len(logs), **bounds)


def _levels(traces: Sequence[Trace]) -> tuple[float, ...]:
    """The highest round ratios that some run had to work for and reached."""
    starts = [value for trace in traces if (value := value_at(trace.points, "answers", 0)) is not None]
    tops = [trace.last.ratio for trace in traces if trace.last.ratio is not None]
    if not starts or not tops:
        return ()
    return tuple(level for level in LEVELS if min(starts) < level <= max(tops))[-MOST_LEVELS:]


def _reached(runs: Sequence[Trace], level: float) -> Reached:
    needed = [
        next((float(point.answers) for point in run.points if point.ratio is not None and point.ratio >= level), math.inf)
        for run in runs
    ]
    middle = statistics.median(needed)
    return Reached(level=level, runs=sum(map(math.isfinite, needed)), answers=middle if math.isfinite(middle) else None)


def _joined(gains: Sequence[Gain]) -> tuple[Gain, ...]:
    keys = dict.fromkeys(gain.key for gain in gains)
    joined = [
        Gain(key=key, asked=sum(gain.asked for gain in gains if gain.key == key),
             accepted=sum(gain.accepted for gain in gains if gain.key == key),
             gain=sum(gain.gain for gain in gains if gain.key == key))
        for key in keys
    ]  # fmt: skip
    return tuple(sorted(joined, key=lambda gain: (-gain.gain, gain.key)))


def _summed(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return dict(total.most_common())
