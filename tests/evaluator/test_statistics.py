"""Statistics of the race: exact ranks, coverage by simulation, refusal of values that aren't times."""

import math

import numpy as np
import pytest

from evaluator.settings import HarnessSettings, cuda_settings, full_settings, harness_id, quick_settings
from evaluator.statistics import (
    Block,
    Interval,
    beyond_one_start,
    geometric_mean,
    log_ratio,
    look_interval,
    median,
    median_interval,
    order_rank,
)

LOOKS = (8, 16, 32, 64)
ALPHA = 0.05
NARROW = 0.005


def test_log_ratio_is_opponent_over_candidate() -> None:
    assert log_ratio(Block(candidate_us=(10.0, 10.0), opponent_us=(20.0, 20.0))) == pytest.approx(math.log(2.0))


def test_linear_drift_cancels_in_a_block() -> None:
    # both sides cost the same; the device slows by 1 % per window; order A B B A
    windows = [100.0 * math.exp(0.01 * k) for k in range(4)]
    block = Block(candidate_us=(windows[0], windows[3]), opponent_us=(windows[1], windows[2]))
    assert log_ratio(block) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.inf, math.nan])
def test_only_finite_positive_times_enter(bad: float) -> None:
    with pytest.raises(ValueError, match="finite and above 0"):
        log_ratio(Block(candidate_us=(bad, 1.0), opponent_us=(1.0, 1.0)))
    with pytest.raises(ValueError, match="finite and above 0"):
        geometric_mean([Interval(ratio=1.0, low=bad, high=1.0)])


def test_one_impossible_ratio_never_makes_a_mean() -> None:
    good = Interval(ratio=1.0, low=0.9, high=1.1)
    with pytest.raises(ValueError, match="finite"):
        geometric_mean([good, Interval(ratio=math.inf, low=1.0, high=math.inf)])
    with pytest.raises(ValueError, match="at least one"):
        geometric_mean([])


@pytest.mark.parametrize(
    ("count", "alpha", "rank"),
    [(8, 0.0125, 1), (16, 0.0125, 3), (7, 0.0125, 0), (8, 0.0078, 0), (8, 0.0079, 1), (1, 0.05, 0), (10, 0.05, 2)],
)
def test_order_rank_by_hand(count: int, alpha: float, rank: int) -> None:
    assert order_rank(count, alpha) == rank


@pytest.mark.parametrize("count", [5, 8, 16, 32, 64])
def test_order_rank_is_the_largest_that_holds(count: int) -> None:
    def missing(rank: int) -> float:
        return 2.0 * sum(math.comb(count, k) for k in range(rank)) / 2.0**count

    rank = order_rank(count, ALPHA / 4)
    assert rank == 0 or missing(rank) <= ALPHA / 4
    assert rank + 1 > count // 2 or missing(rank + 1) > ALPHA / 4


def test_too_few_blocks_give_no_interval() -> None:
    with pytest.raises(ValueError, match="too few"):
        median_interval([0.0] * 7, 0.0125)
    with pytest.raises(ValueError, match="finite"):
        median_interval([0.0] * 7 + [math.nan], 0.0125)


def test_median_of_even_and_odd_counts() -> None:
    assert median([3.0, 1.0, 2.0]) == 2.0
    assert median([4.0, 1.0, 2.0, 3.0]) == 2.5
    with pytest.raises(ValueError, match="nothing"):
        median([])


def _blocks(rng: np.random.Generator, count: int) -> list[float]:
    """Log ratios of an A/A race with heavy tails, as interrupts give them: true median 0."""
    return list(0.01 * rng.standard_t(2, size=count))


def _race_covers(rng: np.random.Generator, looks: tuple[int, ...], share: int) -> bool:
    values = _blocks(rng, looks[-1])
    for look in looks:
        interval = look_interval(values[:look], ALPHA, share)
        covers = interval.low <= 1.0 <= interval.high
        if not covers or interval.half_width < NARROW:
            return covers
    return covers


def test_a_against_a_is_covered_at_the_nominal_rate_over_four_looks() -> None:
    rng = np.random.default_rng(1)
    runs = 4000
    covered = sum(_race_covers(rng, LOOKS, len(LOOKS)) for _ in range(runs))
    assert covered / runs >= 1.0 - ALPHA - 3.0 * math.sqrt(ALPHA * (1.0 - ALPHA) / runs)


def test_looking_after_every_block_without_splitting_the_error_covers_less() -> None:
    rng = np.random.default_rng(2)
    runs = 1000
    every = tuple(range(6, 65))
    greedy = sum(_race_covers(rng, every, 1) for _ in range(runs)) / runs
    assert greedy < 0.93
    assert greedy < 1.0 - ALPHA - 3.0 * math.sqrt(ALPHA * (1.0 - ALPHA) / runs)


def test_the_geometric_mean_is_covered_at_the_nominal_rate() -> None:
    rng = np.random.default_rng(3)
    true = np.log([0.5, 1.0, 1.3, 2.0, 0.9, 1.1])
    runs = 1000
    covered = 0
    for _ in range(runs):
        intervals = [look_interval([centre + x for x in _blocks(rng, 16)], ALPHA, 4) for centre in true]
        mean = geometric_mean(intervals)
        covered += mean.low <= math.exp(true.mean()) <= mean.high
    assert covered / runs >= 1.0 - ALPHA - 3.0 * math.sqrt(ALPHA * (1.0 - ALPHA) / runs)


def test_the_geometric_mean_weighs_scenarios_alike() -> None:
    halves = [Interval(ratio=0.5, low=0.5, high=0.5), Interval(ratio=2.0, low=2.0, high=2.0)]
    mean = geometric_mean(halves)
    assert (mean.low, mean.ratio, mean.high) == pytest.approx((1.0, 1.0, 1.0))


def test_more_scenarios_narrow_the_mean() -> None:
    one = Interval(ratio=1.0, low=0.9, high=1.1)
    assert geometric_mean([one] * 9).half_width < 0.4 * geometric_mean([one]).half_width


def test_settings_refuse_a_first_look_without_an_interval() -> None:
    with pytest.raises(ValueError, match="too early"):
        HarnessSettings(looks=(4, 8))
    with pytest.raises(ValueError, match="rising"):
        HarnessSettings(looks=(16, 8))
    with pytest.raises(ValueError, match="timing_looks"):
        full_settings(5)


def test_looks_can_be_cut_and_the_id_tells() -> None:
    assert full_settings().looks == LOOKS
    assert quick_settings(1).looks == (8,)
    ids = {harness_id(settings) for settings in (full_settings(), full_settings(3), quick_settings(), quick_settings(1))}
    assert len(ids) == 4
    assert harness_id(full_settings()) == harness_id(HarnessSettings())


def test_settings_of_a_gpu_keep_the_pace() -> None:
    assert cuda_settings().looks == LOOKS
    assert cuda_settings("quick", 2).looks == LOOKS[:2]
    assert cuda_settings("quick").race_cap_s < cuda_settings().race_cap_s
    assert harness_id(cuda_settings("quick")) != harness_id(quick_settings())
    with pytest.raises(ValueError, match="the pace is full or quick"):
        cuda_settings("slow")


def test_what_varies_between_starts_is_added_in_quadrature() -> None:
    wide = beyond_one_start(Interval(ratio=1.2, low=1.2 * math.exp(-0.03), high=1.2 * math.exp(0.08)), 0.02, 0.05)
    reach = 1.959964 * 0.02
    assert wide.ratio == 1.2
    assert wide.low == pytest.approx(1.2 * math.exp(-math.hypot(0.03, reach)))
    assert wide.high == pytest.approx(1.2 * math.exp(math.hypot(0.08, reach)))
