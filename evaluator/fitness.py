"""From checks and timings to a score, which exists only where every claimed scenario is right and was timed."""

from collections.abc import Collection, Sequence

from evaluator.outcome import Check, Fitness, Timing
from evaluator.statistics import Interval, geometric_mean


def fitness(scenarios: Collection[str], checks: Sequence[Check], timings: Sequence[Timing], opponent: str) -> Fitness | None:
    """The geometric mean over ``scenarios`` of the ratios to ``opponent``; None where one isn't right or wasn't timed.

    ``scenarios`` are those that the candidate claims (for a rival: that both claim). All of nothing is no score.
    """
    right = {item.scenario for item in checks} - {item.scenario for item in checks if not item.passed}
    timed = {item.scenario: item for item in timings if item.opponent == opponent}
    if not scenarios or not all(name in right and name in timed for name in scenarios):
        return None
    chosen = [timed[name] for name in scenarios]
    mean = geometric_mean([interval_of(item) for item in chosen])
    worst = min(chosen, key=lambda item: item.ratio)
    return Fitness(
        opponent=opponent,
        geomean=mean.ratio,
        low=mean.low,
        high=mean.high,
        scenarios=len(chosen),
        worst_scenario=worst.scenario,
        worst_ratio=worst.ratio,
    )


def interval_of(timing: Timing) -> Interval:
    """The ratio of a timing with its interval."""
    return Interval(ratio=timing.ratio, low=timing.low, high=timing.high)


def is_hopeless(timings: Sequence[Timing], incumbent_low: float, share: float) -> bool:
    """Whether even the upper bound over ``timings`` stays below ``share`` of the incumbent's lower bound."""
    return bool(timings) and geometric_mean([interval_of(item) for item in timings]).high < share * incumbent_low
