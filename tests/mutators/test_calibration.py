"""Predictions beside outcomes: measured ratios by region, their intervals, and what a table says of an answerer."""

import math
from dataclasses import replace

import pytest

from evaluator.outcome import Outcome
from evaluator.task_card import TaskCard
from mutators.calibration import (
    HEADINGS,
    Calibration,
    Held,
    Measured,
    calibrate,
    calibration_rows,
    calibration_text,
    held_of,
    measured_in,
)
from tests.mutators.factories import TIMES, card, outcome, wrong_outcome

REGIONS = {"d64_s128": "short", "d64_s128_causal": "short", "d64_s1024": "long", "d128_s128": "short"}


def regional() -> TaskCard:
    plain = card()
    return replace(plain, scenarios=tuple(replace(one, region=REGIONS[one.name]) for one in plain.scenarios))


def ratios(short: float, long: float) -> dict[str, float]:
    return {name: long if REGIONS[name] == "long" else short for name in TIMES}


def found_in(region: str, child: Outcome, parent: Outcome) -> Measured:
    found = measured_in(region, child, parent, regional())
    assert found is not None
    return found


def held(predicted: float, measured: float | None, region: str = "all", answerer: str = "chat") -> Held:
    found = None if measured is None else Measured(ratio=measured, low=measured * 0.98, high=measured * 1.02)
    return Held(answerer=answerer, region=region, predicted=predicted, measured=found)


def test_a_region_is_measured_over_its_own_scenarios() -> None:
    child, parent = outcome(ratios(1.5, 0.8)), outcome(ratios(1.2, 1.0))
    short, long, both = (found_in(region, child, parent) for region in ("short", "long", "all"))
    assert short.ratio == pytest.approx(1.25)
    assert long.ratio == pytest.approx(0.8)
    assert both.ratio == pytest.approx(math.exp((3 * math.log(1.25) + math.log(0.8)) / 4))


def test_the_interval_adds_the_squares_of_both_races() -> None:
    """Each race's interval is 1 % either way; one scenario keeps two of them, four average them out by half."""
    child, parent = outcome(ratios(1.5, 1.0)), outcome()
    long, both = (found_in(region, child, parent) for region in ("long", "all"))
    half = math.log(1.01 / 0.99) / 2
    assert math.log(long.high / long.ratio) == pytest.approx(half * math.sqrt(2))
    assert math.log(both.ratio / both.low) == pytest.approx(half * math.sqrt(2) / 2)


@pytest.mark.parametrize("region", ["lunch", "long"])
def test_what_was_not_raced_is_not_measured(region: str) -> None:
    only_short = outcome({"d64_s128": 1.5})
    assert measured_in(region, only_short, outcome(), regional()) is None


def test_a_failed_child_measures_nothing() -> None:
    found = held_of("chat", {"all": 1.1, "long": 1.3}, wrong_outcome(), outcome(), regional())
    assert [(one.region, one.predicted, one.measured) for one in found] == [("all", 1.1, None), ("long", 1.3, None)]
    assert held_of("chat", {"all": 1.1}, None, outcome(), regional())[0].measured is None


def test_other_opponents_are_not_compared() -> None:
    child = outcome()
    assert child.fitness is not None
    other = replace(child, fitness=replace(child.fitness, opponent="fa3"))
    assert measured_in("all", other, outcome(), regional()) is None


def test_an_answerer_that_promises_too_much() -> None:
    (found,) = calibrate([held(1.2, 1.0), held(1.1, 1.1), held(1.3, None)])
    assert (found.predictions, found.measured) == (3, 2)
    assert found.log_error == found.bias == pytest.approx(math.log(1.2) / 2)
    assert found.within == 0.5
    assert found.direction == 0.5
    assert found.promised == pytest.approx(math.sqrt(1.2 * 1.1))
    assert found.found == pytest.approx(math.sqrt(1.1))


def test_errors_in_both_directions_leave_no_bias() -> None:
    (found,) = calibrate([held(1.2, 1.0), held(1.0, 1.2)])
    assert found.bias == pytest.approx(0.0)
    assert found.log_error == pytest.approx(math.log(1.2))


def test_models_and_regions_are_kept_apart() -> None:
    found = calibrate([held(1.1, 1.0, "long", "b"), held(1.1, 1.0, "all", "b"), held(1.1, 1.0, "long", "a")])
    assert [(one.answerer, one.region) for one in found] == [("a", "long"), ("b", "all"), ("b", "long")]


def test_the_table_shows_dashes_for_what_was_never_measured() -> None:
    found = calibrate([held(1.2, 1.0), held(1.3, None, "lunch")])
    assert calibration_rows(found) == (
        ("chat", "all", "1", "1", "20.0 %", "0 %", "0 %", "1.200", "1.000", "+20.0 %"),
        ("chat", "lunch", "1", "0", "-", "-", "-", "-", "-", "-"),
    )
    lines = calibration_text(found).split("\n")
    assert lines[0].split() == " ".join(HEADINGS).split()
    assert lines[1].startswith("chat      all ")
    assert calibration_text(()) == "Nothing was predicted."


def test_a_prediction_of_no_gain_that_came_true() -> None:
    (found,) = calibrate([held(1.0, 0.99)])
    assert found == Calibration(
        answerer="chat", region="all", predictions=1, measured=1, log_error=pytest.approx(0.01, rel=0.01), within=1.0,
        direction=1.0, promised=pytest.approx(1.0), found=pytest.approx(0.99), bias=pytest.approx(0.01, rel=0.01),
    )  # fmt: skip
