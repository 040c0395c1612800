"""Curves, areas, intervals and exact tests."""

import math

import numpy as np
import pytest

from results.comparison_statistics import area, begins_at, difference, mean_bands, mean_interval, pairs_needed, value_at
from results.comparison_trace import Point
from tests.results.traces import curve


def test_a_curve_holds_its_value_until_the_next_point() -> None:
    points = curve([None, 1.0, 1.5])
    assert [value_at(points, "answers", spent) for spent in (0, 1, 1.9, 2, 9)] == [None, 1.0, 1.0, 1.5, 1.5]
    assert begins_at(points, "answers") == 1
    assert begins_at(points, "wall_s") == 4.0
    assert begins_at((), "answers") is None


def test_the_area_of_steps_is_the_mean_logarithm() -> None:
    points = curve([1.0, 1.0, math.e, math.e**3])
    assert area(points, "answers", 0, 3) == pytest.approx(1 / 3)
    assert area(points, "answers", 0, 4) == pytest.approx((0 + 0 + 1 + 3) / 4)
    assert area(points, "answers", 2, 3) == pytest.approx(1.0)
    assert area(points, "answers", 3, 3) is None
    assert area((Point(ratio=None),), "answers", 0, 3) is None


def test_a_late_win_has_less_area_than_an_early_one() -> None:
    early, late = curve([1.0, 2.0, 2.0, 2.0]), curve([1.0, 1.0, 1.0, 2.0])
    assert (area(early, "answers", 0, 3) or 0) > (area(late, "answers", 0, 3) or 0)


@pytest.mark.parametrize(("count", "least"), [(1, 1.0), (2, 0.5), (5, 1 / 16), (6, 1 / 32)])
def test_the_exact_test_of_pairs_can_go_no_lower_than_their_number_allows(count: int, least: float) -> None:
    found = difference([1.0 + 0.1 * place for place in range(count)], [0.0] * count, paired=True)
    assert found.least_chance == least
    assert found.chance == least


def test_the_exact_tests_against_every_arrangement_by_hand() -> None:
    paired = difference([3.0, 1.0, -1.0], [0.0, 0.0, 0.0], paired=True)
    assert paired.chance == pytest.approx(6 / 8)  # the sum is 3; of the eight, 3 5 3 1 and their mirrors
    unpaired = difference([5.0, 6.0], [1.0, 2.0], paired=False)
    assert unpaired.chance == unpaired.least_chance == pytest.approx(2 / 6)


def test_equal_arms_are_never_far_apart() -> None:
    found = difference([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], paired=True)
    assert (found.mean, found.low, found.high, found.chance) == (0.0, 0.0, 0.0, 1.0)


def test_equal_arms_get_a_wrong_winner_no_oftener_than_they_may() -> None:
    rng = np.random.default_rng(3)
    worlds = 200
    wrong = sum(
        difference(list(rng.normal(size=6)), list(rng.normal(size=6)), paired=paired).chance <= 0.05
        for _ in range(worlds // 2)
        for paired in (True, False)
    )
    assert wrong / worlds <= 0.11


def test_many_runs_are_tested_by_drawing() -> None:
    rng = np.random.default_rng(4)
    noise = list(rng.normal(size=30))
    far = difference([value + 3 for value in noise], list(rng.normal(size=30)), paired=True)
    assert far.chance < 0.001
    assert difference(noise, list(rng.normal(size=30)), paired=False).chance > 0.05


def test_intervals_hold_the_mean_and_shrink_with_runs() -> None:
    few, many = mean_interval([1.0, 2.0, 3.0]), mean_interval([1.0, 2.0, 3.0] * 10)
    assert few is not None
    assert many is not None
    assert few[0] < many[0] < 2.0 < many[1] < few[1]
    assert mean_interval([1.0]) is None
    assert mean_interval([1.0, 2.0, 3.0]) == few
    bands = mean_bands([[1.0, 5.0], [2.0, 5.0], [3.0, 5.0]])
    assert bands is not None
    assert bands[0][0] < 2.0 < bands[1][0]
    assert (bands[0][1], bands[1][1]) == (5.0, 5.0)
    assert mean_bands([[1.0]]) is None


def test_pairs_needed_is_the_fewest_that_the_exact_test_lets_through() -> None:
    for alpha in (0.05, 0.05 / 3, 0.01, 0.5):
        count = pairs_needed(alpha)
        assert 2.0 ** (1 - count) <= alpha < 2.0 ** (2 - count)
