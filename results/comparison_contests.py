"""Two arms against each other, and what may be said about it: a winner is named only where nothing stands against it."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from results.comparison_statistics import Difference, area, difference, pairs_needed
from results.comparison_trace import Trace

GOES_ON = frozenset({None, "requested", "waiting", "evaluation", "faults", "environment", "answerer"})
"""Why a run stopped that isn't over; None: it goes on, or its driver died."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """Two arms by their runs' best; ``area`` is the same for the area over answers, without a verdict.

    ``noise_pct``: what a difference must exceed to be one. ``leader`` is None unless a winner may be named; ``says`` puts it in a
    sentence.
    """

    one: str
    other: str
    best: Difference | None
    area: Difference | None
    noise_pct: float | None
    leader: str | None
    says: str


def contest(one: Sequence[Trace], other: Sequence[Trace], common: tuple[float, float] | None, alpha: float) -> Contest:
    """What the runs of two arms allow to say at ``alpha``. ``common``: from how many answers to how many both are looked at."""
    pairs = _pairs(one, other)
    paired = pairs is not None
    first, second = pairs or (one, other)
    best = _gap(first, second, lambda run: math.log(run.best.ratio) if run.best else None, paired, alpha)
    both = _gap(first, second, lambda run: area(run.points, "answers", *common) if common else None, paired, alpha)
    noise = max((run.noise_pct for run in (*one, *other) if run.noise_pct is not None), default=None)
    names = one[0].arm, other[0].arm
    winner, says = _verdict(names, best, noise, min(len(one), len(other)), alpha)
    if winner is not None and (doubts := _doubts(one, other)):
        winner, says = None, f"{says}; but {' and '.join(doubts)}: no conclusion"
    return Contest(one=names[0], other=names[1], best=best, area=both, noise_pct=noise, leader=winner, says=says)


def cautions(traces: Sequence[Trace]) -> tuple[str, ...]:
    """Settings in which runs differ though the arm alone should, and runs that tell less than the others."""
    found = []
    for key in _differing(traces):
        by_arm: dict[str, dict[str, None]] = {}
        for trace in traces:
            by_arm.setdefault(trace.arm, {})[trace.settings.get(key, "not set")] = None
        told = "; ".join(f"{arm}: {', '.join(values)}" for arm, values in by_arm.items())
        found.append(f"{key} differs ({told})")
    if unfinished := [trace.name for trace in traces if trace.stopped_by in GOES_ON]:
        found.append(f"not finished: {', '.join(unfinished)}")
    if unverified := [trace.name for trace in traces if trace.best is not None and not trace.best.verified]:
        found.append(f"best not verified by a final, so chance picked it along with merit: {', '.join(unverified)}")
    for arm in dict.fromkeys(trace.arm for trace in traces):
        styles = dict.fromkeys(trace.style for trace in traces if trace.arm == arm)
        if len(styles) > 1:
            found.append(f"arm {arm} mixes the styles {', '.join(styles)}")
    return tuple(found)


def _doubts(one: Sequence[Trace], other: Sequence[Trace]) -> list[str]:
    """Why no winner may be named though the figures lie apart."""
    runs = (*one, *other)
    found = []
    if any(run.stopped_by in GOES_ON for run in runs):
        found.append("not every run is finished")
    if any(run.best is None or not run.best.verified for run in runs):
        found.append("not every best is verified")
    if differing := _differing(runs):
        found.append(f"the runs differ in {', '.join(differing)} too")
    return found


def _differing(traces: Sequence[Trace]) -> list[str]:
    """Settings that aren't the same for all runs."""
    keys = dict.fromkeys(key for trace in traces for key in trace.settings)
    return [key for key in keys if len({trace.settings.get(key) for trace in traces}) > 1]


def _verdict(
    names: tuple[str, str], best: Difference | None, noise_pct: float | None, runs: int, alpha: float
) -> tuple[str | None, str]:
    """The arm that the figures alone would call better, and the sentence about it."""
    if best is None:
        return None, "nothing to compare: no conclusion"
    if runs < 2:
        return None, f"{runs} run an arm: no conclusion"
    ahead, behind = names if best.mean >= 0 else names[::-1]
    seen = f"{ahead} over {behind} {math.exp(abs(best.mean)):.3f}x"
    if noise_pct is not None and abs(best.mean) <= math.log1p(noise_pct / 100):
        return None, f"{seen}, which is within the noise floor of {noise_pct:.2f} %: no conclusion"
    if best.least_chance > alpha:
        unit = f"{best.pairs} pairs" if best.pairs else f"{runs} runs an arm"
        more = f", {pairs_needed(alpha)} or more could" if best.pairs else ""
        odds = f"1 in {1 / best.least_chance:.0f} at best, where 1 in {1 / alpha:.0f} is asked for"
        return None, f"{seen}, which {unit} can't tell from chance ({odds}{more}): no conclusion"
    if best.chance > alpha or (best.low is not None and best.high is not None and best.low <= 0 <= best.high):
        return None, f"{seen}, which chance alone brings about in {100 * best.chance:.0f} % of cases: no conclusion"
    return ahead, f"{seen}; chance alone brings that about in {100 * best.chance:.1f} % of cases"


def _pairs(one: Sequence[Trace], other: Sequence[Trace]) -> tuple[list[Trace], list[Trace]] | None:
    """The runs in pairs of the same seed; None where a run has no partner, or several."""
    first, second = ({run.seed: run for run in runs} for runs in (one, other))
    if len(first) < len(one) or len(second) < len(other) or first.keys() != second.keys():
        return None
    return [first[seed] for seed in sorted(first)], [second[seed] for seed in sorted(first)]


def _gap(
    first: Sequence[Trace], second: Sequence[Trace], of: Callable[[Trace], float | None], paired: bool, alpha: float
) -> Difference | None:
    """How far two arms lie apart in a figure; None where a run has none."""
    one = [value for run in first if (value := of(run)) is not None]
    other = [value for run in second if (value := of(run)) is not None]
    if not one or not other or len(one) < len(first) or len(other) < len(second):
        return None
    return difference(one, other, paired=paired, alpha=alpha)
