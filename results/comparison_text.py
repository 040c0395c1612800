"""A comparison as text for a terminal, as rows for a spreadsheet, as one mapping for programs."""

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import asdict, astuple, fields

from results.comparison import ArmRow, Comparison, Mean
from results.comparison_contests import Contest
from results.comparison_statistics import Difference
from results.comparison_trace import Gain, Point
from results.text import count, duration, interval, table

UNTOLD = "tools"
"""The style whose request doesn't say what the drawn question is about."""

MOST_RUNS_SHOWN = 24


def comparison_lines(comparison: Comparison) -> list[str]:
    """The whole report."""
    names = [arm.name for arm in comparison.arms]
    lines = [*_heading(comparison), "", *_arms(comparison), "", *_runs(comparison)]
    if comparison.levels:
        lines += ["", "Answers until the search's lower bound reached a ratio (median over runs; how many runs reached it):"]
        titles = ("arm", *(f"{level:g}x" for level in comparison.levels))
        lines += table(titles, (_levels_row(arm) for arm in comparison.arms))
    lines += ["", "What became of the answers: rejected, known already, or judged by the harness:", *_ends(comparison)]
    for title, of in (("layer", "layers"), ("moment", "moments")):
        rows = _gain_rows(comparison, of)
        if rows:
            lines += ["", f"Gain by {title} (accepted of asked; gain in % of speed, summed as logarithms, a run):"]
            lines += table((title, *names), rows)
    if any(run.style == UNTOLD for arm in comparison.arms for run in arm.runs):
        lines.append(f"The style {UNTOLD} tells nobody the layer: its column says what would have been asked.")
    lines += ["", *(line for contest in comparison.contests for line in _contest_lines(contest))]
    if len(comparison.arms) < 2:
        lines.append("One arm: nothing to compare it with. Name runs of another, or label them: LABEL=RUN.")
    return lines + [f"caution: {caution}" for caution in comparison.cautions]


def comparison_mapping(comparison: Comparison) -> dict[str, object]:
    """All of it as JSON types; curves run by run, as lists under the names of Point's fields."""
    arms = []
    for arm in comparison.arms:
        runs = [{**asdict(run), "points": _columns(run.points)} for run in arm.runs]
        arms.append({**asdict(arm), "runs": runs})
    return {
        "arms": arms,
        "contests": [asdict(contest) for contest in comparison.contests],
        "cautions": list(comparison.cautions),
        "levels": list(comparison.levels),
        "ranges": {axis: list(ends) for axis, ends in comparison.ranges.items()},
    }


def _columns(points: Sequence[Point]) -> dict[str, list[object]]:
    return {field.name: [getattr(point, field.name) for point in points] for field in fields(Point)}


def comparison_csv(comparison: Comparison) -> str:
    """Every point of every run's curve as comma-separated values: arm, run, seed, then the fields of Point."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["arm", "run", "seed", *(field.name for field in fields(Point))])
    for arm in comparison.arms:
        for run in arm.runs:
            rows.writerows([arm.name, run.name, run.seed, *astuple(point)] for point in run.points)
    return text.getvalue()


def _heading(comparison: Comparison) -> list[str]:
    first = comparison.arms[0].runs[0]
    arms = ", ".join(f"{arm.name} {count(len(arm.runs), 'run')}" for arm in comparison.arms)
    return [f"{arms}; {'; '.join(f'{term} {value}' for term, value in first.terms.items())}"]


def _arms(comparison: Comparison) -> list[str]:
    start, end = comparison.ranges.get("answers", (0.0, 0.0))
    rows = [
        (arm.name, len(arm.runs), *_mean(arm.best), f"{arm.verified} of {len(arm.runs)}", *_mean(arm.area.get("answers")),
         arm.answers, _percent(arm.accepted_share), _percent(arm.readded_share), arm.evaluations, *_cost(arm))
        for arm in comparison.arms
    ]  # fmt: skip
    titles = ("arm", "runs", "best", "interval", "verified", "area", "interval", "answers", "accepted", "re-added", "evaluations",
              "tokens", "wall", "GPU")  # fmt: skip
    return [
        *table(titles, rows),
        "best: geometric mean over runs against the baseline; area: that of the best lower bound so far, averaged over answers "
        f"{start:.0f} to {end:.0f}; intervals: bootstrap over runs",
    ]


def _runs(comparison: Comparison) -> list[str]:
    """Run by run, those of a seed together."""
    runs = sorted((run for arm in comparison.arms for run in arm.runs), key=lambda run: run.seed)
    rows = [
        (run.seed, run.arm, run.name, f"{run.best.ratio:.3f}x" if run.best else None,
         interval(run.best.low, run.best.high) if run.best else "", "verified" if run.best and run.best.verified else "searched",
         run.last.answers, run.accepted, duration(run.last.wall_s), run.stopped_by or "goes on")
        for run in runs[:MOST_RUNS_SHOWN]
    ]  # fmt: skip
    titles = ("seed", "arm", "run", "best", "its interval", "by", "answers", "accepted", "wall", "stopped by")
    more = len(runs) - len(rows)
    return [*table(titles, rows), *([f"and {count(more, 'more run')}"] if more else [])]


def _levels_row(arm: ArmRow) -> Sequence[object]:
    runs = len(arm.runs)
    return (arm.name, *(f"{'-' if one.answers is None else f'{one.answers:g}'} ({one.runs}/{runs})" for one in arm.reached))


def _ends(comparison: Comparison) -> list[str]:
    """Why answers made no candidate and how the others were judged, one row a reason and one column an arm."""
    reasons = dict.fromkeys(word for arm in comparison.arms for word in (*arm.rejections, *arm.verdicts))
    rows = [(word, *(arm.rejections.get(word, 0) + arm.verdicts.get(word, 0) for arm in comparison.arms)) for word in reasons]
    return table(("", *(arm.name for arm in comparison.arms)), rows)


def _gain_rows(comparison: Comparison, of: str) -> list[Sequence[object]]:
    found: list[dict[str, Gain]] = [{gain.key: gain for gain in getattr(arm, of)} for arm in comparison.arms]
    keys = sorted(
        {key for gains in found for key in gains}, key=lambda key: (-sum(gains[key].gain for gains in found if key in gains), key)
    )
    each = [(gains, len(arm.runs)) for gains, arm in zip(found, comparison.arms, strict=True)]
    return [(key, *(_gain(gains[key], runs) if key in gains else "" for gains, runs in each)) for key in keys]


def _gain(gain: Gain, runs: int) -> str:
    return f"{gain.accepted} of {gain.asked}, {100 * gain.gain / runs:.1f}"


def _contest_lines(contest: Contest) -> list[str]:
    lines = [f"{contest.one} and {contest.other}: {contest.says}"]
    for title, gap in (("best", contest.best), ("area", contest.area)):
        if gap is not None and gap.low is not None and gap.high is not None:
            lines.append(f"  {title}: {contest.one} / {contest.other} = {_gap(gap)}")
    return lines


def _gap(gap: Difference) -> str:
    """A difference of logarithms as a ratio."""
    low, high = math.exp(gap.low or 0.0), math.exp(gap.high or 0.0)
    how = f"{count(gap.pairs, 'pair')} of one seed" if gap.pairs else "unpaired"
    return f"{math.exp(gap.mean):.3f} {interval(low, high)} (bootstrap over runs, {how})"


def _mean(mean: Mean | None) -> tuple[str | None, str]:
    if mean is None:
        return None, ""
    return f"{mean.ratio:.3f}x", "" if mean.low is None or mean.high is None else interval(mean.low, mean.high)


def _cost(arm: ArmRow) -> tuple[object, ...]:
    """Tokens, wall time and GPU time over all runs, empty where there was none."""
    last = [run.last for run in arm.runs]
    tokens, wall_s, gpu_s = sum(one.tokens for one in last), sum(one.wall_s for one in last), sum(one.gpu_s for one in last)
    return tokens, duration(wall_s), duration(gpu_s)


def _percent(share: float | None) -> str | None:
    return None if share is None else f"{100 * share:.1f}%"
