"""Makers of traces: runs as a comparison sees them, without a store."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from results.comparison_trace import Point, Score, Trace

TERMS = {
    "task": "toy c0ffee",
    "scenario set": "quick (3)",
    "baseline": "torch",
    "harness": "1",
    "device": "cpu test (none, 2 cores)",
}
SETTINGS = {"budget.candidates": "20", "mutation.answerer": "'knobs'"}


def curve(ratios: Sequence[float | None], each_s: float = 2.0) -> tuple[Point, ...]:
    """A point for each folded step: the first is a seed, every other an answer."""
    return tuple(
        Point(answers=place, evaluations=place + 1, tokens=100 * place, wall_s=each_s * (place + 1), ratio=ratio)
        for place, ratio in enumerate(ratios)
    )


def trace(arm: str, seed: int, best: float, **changes: Any) -> Trace:
    """A finished, verified run that goes from 0.5 to its best in four answers."""
    plain = Trace(
        name=f"{arm}-{seed}",
        arm=arm,
        style="question",
        seed=seed,
        stopped_by="candidates",
        points=curve([0.5, 0.5, best * 0.9, best * 0.9, best * 0.99]),
        best=Score(ratio=best, low=best * 0.99, high=best * 1.01, verified=True),
        accepted=2,
        rejections={"no_match": 1},
        verdicts={"OK": 3},
        layers=(),
        moments=(),
        noise_pct=0.2,
        terms=TERMS,
        settings=SETTINGS,
    )
    return replace(plain, **changes)


def arms(one: Sequence[float], other: Sequence[float]) -> list[Trace]:
    """Two arms with these bests, paired by seed."""
    return [trace("one", seed, best) for seed, best in enumerate(one)] + [
        trace("other", seed, best) for seed, best in enumerate(other)
    ]
