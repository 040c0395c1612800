"""What a few runs an arm allow to say: anytime curves and their area, bootstrap intervals, exact tests of a difference.

Everything is worked out on logarithms of ratios. Resampling is over whole runs, since a run's own steps depend on one another
(Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 8); with few runs such intervals are too narrow, so a
conclusion also needs the exact permutation test (ibid., chapter 15), which can't be passed by fewer runs than it takes.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from results.comparison_trace import Point

ALPHA = 0.05
"""The chance of naming a winner where the arms are equal, over all pairs of arms together."""

RESAMPLES = 10_000
EXACT_UP_TO = 20_000
"""Arrangements that a test goes through one by one; of more it draws so many."""

SEED = 20_000
"""Of the bootstrap: the same runs give the same intervals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Mean logarithm of one arm minus that of another, with its bootstrap interval (None for a single run an arm).

    ``chance``: how often arrangements that chance makes equally likely are at least as far apart. ``least_chance`` is the lowest
    value that so many runs could give. ``pairs``: runs of the same seed held against each other, 0 for unpaired arms.
    """

    mean: float
    low: float | None
    high: float | None
    chance: float
    least_chance: float
    pairs: int


def value_at(points: Sequence[Point], axis: str, spent: float) -> float | None:
    """The best ratio once so much was spent on an axis; None before there was one."""
    known = [point.ratio for point in points if getattr(point, axis) <= spent]
    return known[-1] if known else None


def begins_at(points: Sequence[Point], axis: str) -> float | None:
    """What was spent on an axis when there first was a ratio; None where there never was."""
    return next((float(getattr(point, axis)) for point in points if point.ratio is not None), None)


def area(points: Sequence[Point], axis: str, start: float, end: float) -> float | None:
    """The mean over ``start``..``end`` of the logarithm of the best ratio so far, a curve of steps; None without one there."""
    first = value_at(points, axis, start)
    if first is None or end <= start:
        return None
    total, at, ratio = 0.0, start, first
    for point in points:
        place = float(getattr(point, axis))
        if start < place <= end and point.ratio is not None:
            total += (place - at) * math.log(ratio)
            at, ratio = place, point.ratio
    return (total + (end - at) * math.log(ratio)) / (end - start)


def mean_interval(values: Sequence[float], alpha: float = ALPHA) -> tuple[float, float] | None:
    """A percentile bootstrap interval of a mean over runs; None for fewer than two."""
    if len(values) < 2:
        return None
    return _quantiles(_resampled(np.asarray(values)), alpha)


def mean_bands(curves: Sequence[Sequence[float]], alpha: float = ALPHA) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    """The lower and upper ends of such intervals at every place of curves of equal length; None for fewer than two curves."""
    if len(curves) < 2:
        return None
    values = np.asarray(curves)
    drawn = np.random.default_rng(SEED).integers(0, len(curves), (RESAMPLES // 10, len(curves)))
    low, high = np.quantile(values[drawn].mean(axis=1), [alpha / 2, 1 - alpha / 2], axis=0)
    return tuple(low.tolist()), tuple(high.tolist())


def difference(one: Sequence[float], other: Sequence[float], *, paired: bool, alpha: float = ALPHA) -> Difference:
    """How far two arms lie apart; where ``paired``, the runs at the same place belong together."""
    first, second = np.asarray(one, dtype=float), np.asarray(other, dtype=float)
    mean = float(first.mean() - second.mean())
    if paired:
        gaps = first - second
        chance, least = _sign_flips(gaps)
        interval = _quantiles(_resampled(gaps), alpha) if len(gaps) > 1 else None
    else:
        chance, least = _regroupings(first, second)
        enough = min(len(first), len(second)) > 1
        interval = _quantiles(_resampled(first) - _resampled(second, SEED + 1), alpha) if enough else None
    low, high = interval or (None, None)
    return Difference(mean=mean, low=low, high=high, chance=chance, least_chance=least, pairs=len(first) if paired else 0)


def pairs_needed(alpha: float) -> int:
    """How many pairs the exact test takes to get to ``alpha`` where all agree."""
    return math.ceil(1 - math.log2(alpha))


def _resampled(values: np.ndarray, seed: int = SEED) -> np.ndarray:
    """Means of samples drawn with replacement."""
    rng = np.random.default_rng(seed)
    return np.asarray(values[rng.integers(0, len(values), (RESAMPLES, len(values)))].mean(axis=1))


def _quantiles(means: np.ndarray, alpha: float) -> tuple[float, float]:
    low, high = np.quantile(means, [alpha / 2, 1 - alpha / 2])
    return float(low), float(high)


def _sign_flips(gaps: np.ndarray) -> tuple[float, float]:
    """The share of arrangements of signs whose mean lies at least as far from 0, and the least share there can be."""
    count = len(gaps)
    if 2**count <= EXACT_UP_TO:
        signs = np.array(list(itertools.product((1, -1), repeat=count)))
    else:
        drawn = np.random.default_rng(SEED).choice((1, -1), (EXACT_UP_TO, count))
        signs = np.vstack([np.ones((1, count)), drawn])
    return _share(np.abs(signs @ gaps), abs(float(gaps.sum()))), 2.0 ** (1 - count)


def _regroupings(first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
    """The same for all ways to deal the runs to two arms of these sizes."""
    together = np.concatenate([first, second])
    size, total, ways = len(first), len(together), math.comb(len(together), len(first))
    if ways <= EXACT_UP_TO:
        chosen = np.array(list(itertools.combinations(range(total), size)))
    else:
        rng = np.random.default_rng(SEED)
        chosen = np.vstack([np.arange(size), np.argsort(rng.random((EXACT_UP_TO, total)), axis=1)[:, :size]])
    own = together[chosen].sum(axis=1)
    gaps = np.abs(own / size - (together.sum() - own) / (total - size))
    mirrored = 2 if size == total - size else 1
    return _share(gaps, abs(float(first.mean() - second.mean()))), mirrored / ways


def _share(distances: np.ndarray, seen: float) -> float:
    """How many of the distances reach the one seen, rounding aside."""
    return float(np.mean(distances >= seen * (1 - 1e-9) - 1e-12))
