"""A score exists only where all of the claimed domain is right and timed."""

import math

import pytest

from evaluator.fitness import fitness, is_hopeless
from evaluator.outcome import Check, Timing


def check(scenario: str, passed: bool = True) -> Check:
    return Check(
        scenario=scenario,
        distribution="normal",
        tensor="y",
        passed=passed,
        max_error=0.0,
        max_allowed=1.0,
        rms_error=0.0,
        rms_allowed=1.0,
    )


def timing(scenario: str, ratio: float, opponent: str = "peer", half_width: float = 0.0) -> Timing:
    return Timing(
        scenario=scenario,
        opponent=opponent,
        ratio=ratio,
        low=ratio * (1.0 - half_width),
        high=ratio * (1.0 + half_width),
        candidate_us=1.0,
        opponent_us=ratio,
        blocks=8,
        floor_us=0.1,
        bound="flop",
    )


def test_geometric_mean_and_worst_scenario() -> None:
    found = fitness(["a", "b"], [check("a"), check("b")], [timing("a", 0.5), timing("b", 2.0)], "peer")
    assert found is not None
    assert found.geomean == pytest.approx(1.0)
    assert (found.worst_scenario, found.worst_ratio, found.scenarios) == ("a", 0.5, 2)


def test_low_is_the_lower_bound() -> None:
    found = fitness(["a"], [check("a")], [timing("a", 1.0, half_width=0.1)], "peer")
    assert found is not None
    assert (found.low, found.high) == pytest.approx((0.9, 1.1))


@pytest.mark.parametrize(
    ("checks", "timings"),
    [
        ([check("a")], [timing("a", 1.0), timing("b", 1.0)]),
        ([check("a"), check("b", passed=False)], [timing("a", 1.0), timing("b", 1.0)]),
        ([check("a"), check("b"), check("b", passed=False)], [timing("a", 1.0), timing("b", 1.0)]),
        ([check("a"), check("b")], [timing("a", 1.0)]),
        ([check("a"), check("b")], [timing("a", 1.0), timing("b", 1.0, opponent="other")]),
    ],
    ids=["not checked", "wrong", "wrong once", "not timed", "timed against another"],
)
def test_no_score_unless_every_claimed_scenario_is_right_and_timed(checks: list[Check], timings: list[Timing]) -> None:
    assert fitness(["a", "b"], checks, timings, "peer") is None


def test_all_of_nothing_is_no_score() -> None:
    assert fitness([], [], [], "peer") is None


def test_a_zero_time_of_one_scenario_can_not_win() -> None:
    with pytest.raises(ValueError, match="finite"):
        fitness(["a"], [check("a")], [timing("a", math.inf)], "peer")


def test_hopeless_needs_the_whole_interval_below_the_share() -> None:
    assert is_hopeless([timing("a", 0.5, half_width=0.1)], 1.0, 0.7)
    assert not is_hopeless([timing("a", 0.65, half_width=0.1)], 1.0, 0.7)
    assert not is_hopeless([], 1.0, 0.7)
