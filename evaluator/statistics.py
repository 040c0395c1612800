"""From block times to a ratio with an interval, and from ratios to a geometric mean with one.

A block is A B B A: candidate, opponent, opponent, candidate, one after another, so that a drift that is linear over the block
cancels. Intervals are those of order statistics, which hold for any continuous distribution (David and Nagaraja, Order
Statistics, 2003, section 7.1). The error ``alpha`` is split between the looks (Bonferroni), so stopping at any of them keeps it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A ratio with its interval, ``low <= ratio <= high``, all finite and above 0."""

    ratio: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half the interval's width as a fraction of the ratio."""
        return (self.high - self.low) / (2.0 * self.ratio)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Times of one execution (us) in the two windows of each side of an ABBA block."""

    candidate_us: tuple[float, float]
    opponent_us: tuple[float, float]


def is_time(value_us: float) -> bool:
    """Whether a measured time may enter any statistic: finite and above 0."""
    return math.isfinite(value_us) and value_us > 0.0


def log_ratio(block: Block) -> float:
    """The natural logarithm of opponent time over candidate time, above 0 where the candidate is faster.

    Raises ValueError for a time that is not finite or not above 0: such a time belongs in a verdict, never in a statistic.
    """
    times = (*block.candidate_us, *block.opponent_us)
    if not all(is_time(value) for value in times):
        raise ValueError(f"times must be finite and above 0, got {times}")
    candidate = math.log(block.candidate_us[0]) + math.log(block.candidate_us[1])
    opponent = math.log(block.opponent_us[0]) + math.log(block.opponent_us[1])
    return 0.5 * (opponent - candidate)


def order_rank(count: int, alpha: float) -> int:
    """The largest k for which [k-th smallest, k-th largest] of ``count`` values covers the median with 1 - alpha.

    0 where ``count`` is too small for any such interval. The probability of missing is 2 P(Bin(count, 1/2) < k).
    """
    missing = 0.0
    rank = 0
    while rank < count // 2:
        missing += math.comb(count, rank) * 2.0 ** (1 - count)
        if missing > alpha:
            break
        rank += 1
    return rank


def median(values: Sequence[float]) -> float:
    """The middle value, or the mean of the two middle ones. Raises ValueError on an empty sequence."""
    if not values:
        raise ValueError("the median of nothing is not defined")
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else 0.5 * (ordered[middle - 1] + ordered[middle])


def median_interval(log_ratios: Sequence[float], alpha: float) -> Interval:
    """The median ratio with a distribution-free interval that misses with probability at most ``alpha``.

    ``log_ratios`` are those of independent blocks. Raises ValueError where they are too few or one isn't finite.
    """
    if not all(math.isfinite(value) for value in log_ratios):
        raise ValueError("every log ratio must be finite")
    rank = order_rank(len(log_ratios), alpha)
    if rank == 0:
        raise ValueError(f"{len(log_ratios)} blocks are too few for an interval at alpha {alpha}")
    ordered = sorted(log_ratios)
    return Interval(
        ratio=math.exp(median(ordered)),
        low=math.exp(ordered[rank - 1]),
        high=math.exp(ordered[-rank]),
    )


def look_interval(log_ratios: Sequence[float], alpha: float, looks: int) -> Interval:
    """The interval at one of ``looks`` fixed checkpoints, each of which gets an equal share of ``alpha``."""
    return median_interval(log_ratios, alpha / looks)


def beyond_one_start(interval: Interval, spread: float, alpha: float) -> Interval:
    """The interval with what varies between starts of the processes added in quadrature, below and above apart.

    ``spread`` is the standard deviation of the log ratio between starts: no number of blocks of one pair of processes shows it.
    """
    if spread == 0.0:
        return interval
    reach = NormalDist().inv_cdf(1.0 - alpha / 2.0) * spread
    below = math.hypot(math.log(interval.ratio / interval.low), reach)
    above = math.hypot(math.log(interval.high / interval.ratio), reach)
    return Interval(ratio=interval.ratio, low=interval.ratio * math.exp(-below), high=interval.ratio * math.exp(above))


def geometric_mean(intervals: Sequence[Interval]) -> Interval:
    """The geometric mean over scenarios with its interval.

    The distances from each median to its ends (in logarithms) are added in quadrature, below and above apart: scenarios are
    timed at different moments, so their errors are independent. Raises ValueError on an empty sequence or on a bound that is
    not finite and above 0.
    """
    if not intervals:
        raise ValueError("a geometric mean needs at least one scenario")
    if not all(is_time(end) for item in intervals for end in (item.low, item.ratio, item.high)):
        raise ValueError("every ratio and bound must be finite and above 0")
    count = len(intervals)
    centre = sum(math.log(item.ratio) for item in intervals) / count
    below = math.sqrt(sum(math.log(item.ratio / item.low) ** 2 for item in intervals)) / count
    above = math.sqrt(sum(math.log(item.high / item.ratio) ** 2 for item in intervals)) / count
    return Interval(ratio=math.exp(centre), low=math.exp(centre - below), high=math.exp(centre + above))


def student_quantile(degrees: int, alpha: float) -> float:
    """The t for which a Student variable with ``degrees`` (at least 1) lies outside [-t, t] with probability ``alpha``.

    By bisection on the distribution's finite series (Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 4).
    """
    low, high = 0.0, 1.0
    while _student_inside(high, degrees) < 1.0 - alpha:
        high *= 2.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _student_inside(middle, degrees) < 1.0 - alpha else (low, middle)
    return high


def _student_inside(t: float, degrees: int) -> float:
    """The probability that a Student variable lies in [-t, t]."""
    theta = math.atan(t / math.sqrt(degrees))
    odd = degrees % 2
    term, total = (math.cos(theta), 0.0) if odd else (1.0, 0.0)
    for power in range(1 + odd, degrees, 2):
        total += term
        term *= math.cos(theta) ** 2 * power / (power + 1)
    return 2.0 / math.pi * (theta + math.sin(theta) * total) if odd else math.sin(theta) * total


def over_restarts(races: Sequence[Interval], alpha: float) -> Interval:
    """The ratio over races of the same pair, each between fresh processes: the mean of their medians' logarithms.

    Its interval is Student's over those medians (n - 1 degrees of freedom), widened where the races' own intervals, added in
    quadrature, reach further: four medians that agree by luck don't make it narrower than what was seen within them. Raises
    ValueError for fewer than two races.
    """
    if len(races) < 2:
        raise ValueError("what varies between starts takes at least two races to see")
    within = geometric_mean(races)
    centre = math.log(within.ratio)
    spread = math.sqrt(sum((math.log(item.ratio) - centre) ** 2 for item in races) / (len(races) - 1))
    half = student_quantile(len(races) - 1, alpha) * spread / math.sqrt(len(races))
    return Interval(
        ratio=within.ratio, low=min(within.low, math.exp(centre - half)), high=max(within.high, math.exp(centre + half))
    )
