import math
from collections.abc import Mapping
from dataclasses import replace

import pytest

from evaluator.outcome import Effort, Fitness, Outcome, Verdict
from evaluator.request import Request
from evaluator.simulated import SimulatedEvaluator
from evaluator.task_card import Scenario, TaskCard
from evolve.goal import GoalError, check_names, examine, is_met, parse_goal
from population.candidate import Language
from population.novelty import candidate_of
from tests.evolve.simulation import SEEDS
from tests.evolve.simulation import card as tiny_card

PEERS = ("fa3", "cudnn")


def card() -> TaskCard:
    names = {"a": "short", "b": "short", "c": "long"}
    scenarios = tuple(Scenario(name=name, symbols={}, region=region) for name, region in names.items())
    return replace(tiny_card(), baselines=(*PEERS, "absent"), regions=("short", "long"), scenarios=scenarios)


def outcome(lows: Mapping[str, tuple[float, float, float]], fitted: Mapping[str, float] | None = None) -> Outcome:
    """An outcome with these lower bounds by peer in scenarios a, b, c, and intervals of the geometric mean in ``fitted``."""
    with open(SEEDS[0], encoding="utf-8") as file:
        candidate = candidate_of(file.read(), Language.CPP)
    whole = SimulatedEvaluator(tiny_card(), 1).evaluate(Request(candidate=candidate, effort=Effort.FINAL))
    timing = whole.timings[0]
    timings = [
        replace(timing, scenario=name, opponent=peer, low=low, ratio=low * 1.01, high=low * 1.02)
        for peer, values in lows.items()
        for name, low in zip("abc", values, strict=True)
    ]
    fits = [
        Fitness(opponent=peer, geomean=low * 1.01, low=low, high=low * 1.02, scenarios=3, worst_scenario="a", worst_ratio=1.0)
        for peer, low in (fitted or {}).items()
    ]
    return replace(
        whole,
        verdict=Verdict.OK,
        supported=("a", "b", "c"),
        timings=tuple(timings),
        fitness=fits[0] if fits else None,
        versus=tuple(fits[1:]),
    )


MEASURED = {"fa3": (1.2, 1.1, 1.3), "cudnn": (1.0, 1.4, 1.25)}
FITTED = {"fa3": 1.21, "cudnn": 1.19}


@pytest.mark.parametrize(
    ("text", "met"),
    [
        ("geomean(fa3) >= 1.21", True),
        ("geomean(fa3) > 1.21", False),
        ("geomean(cudnn)>=1.2", False),
        ("worst(fa3) >= 1.1", True),
        ("worst(fa3) > 1.1", False),
        ("worst(best_peer) >= 1.0", True),
        ("worst(best_peer) >= 1.01", False),
        ("geomean(best_peer) >= 1.11", True),  # (1.0 * 1.1 * 1.25) ** (1 / 3) = 1.112
        ("geomean(best_peer) >= 1.12", False),
        ("geomean(fa3, long) >= 1.3", True),
        ("geomean(fa3, short) >= 1.14", True),  # sqrt(1.2 * 1.1) = 1.149
        ("geomean(fa3, short) >= 1.15", False),
        ("worst(cudnn, long) > 1.2 and worst(cudnn, all) >= 1", True),
        ("geomean(absent) >= 0.1", False),
        ("correct == all", True),
        ("geomean(fa3) >= 1.16 and worst(best_peer) >= 1.0 and correct == all", True),
        ("correct == all and geomean(fa3) >= 2", False),
    ],
)
def test_conditions_hold_at_lower_bounds(text: str, met: bool) -> None:
    goal = parse_goal(text)
    check_names(goal, card())
    assert is_met(goal, outcome(MEASURED, FITTED), card()) is met


def test_without_an_interval_the_scenarios_lower_bounds_count() -> None:
    [result] = examine(parse_goal("geomean(fa3) > 1"), outcome(MEASURED), card())
    assert result.value == pytest.approx(math.prod(MEASURED["fa3"]) ** (1 / 3))


def test_a_specialist_is_not_correct_everywhere_and_a_failure_meets_nothing() -> None:
    found = outcome(MEASURED, FITTED)
    [result] = examine(parse_goal("correct == all"), replace(found, supported=("a",)), card())
    assert not result.met
    assert "2 of 3 scenarios" in result.reason
    assert not is_met(parse_goal("worst(fa3) > 0.1"), replace(found, verdict=Verdict.WRONG), card())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "ends after character 0 where 'geomean' or 'worst' or 'correct' should follow"),
        ("geomaen(fa3) >= 1", "did you mean 'geomean'?"),
        ("geomean fa3 >= 1", "character 9: 'fa3' where '(' should stand"),
        ("geomean(fa3 >= 1", "where ')' should stand"),
        ("geomean(1.5) >= 1", "'1.5' where a baseline's name should stand"),
        ("geomean(fa3) = 1", "'=' has no meaning"),
        ("geomean(fa3) <= 1", "'<' has no meaning"),
        ("geomean(fa3) == 1", "'==' where '>=' or '>' should stand"),
        ("geomean(fa3) >= fast", "where a number should stand"),
        ("geomean(fa3) >=", "ends after character 15 where a number should follow"),
        ("geomean(fa3) >= 1 or correct == all", "'or' where 'and' should stand"),
        ("correct == some", "'some' where 'all' should stand"),
        ("geomean(fa3) >= 1 and", "should follow"),
    ],
)
def test_what_cannot_be_read_says_where_and_what(text: str, says: str) -> None:
    with pytest.raises(GoalError) as caught:
        parse_goal(text)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [("worst(fa2) > 1", "no baseline 'fa2'; it has fa3, cudnn, absent, best_peer"), ("worst(fa3, wide) > 1", "no region 'wide'")],
)
def test_names_are_checked_against_the_task(text: str, says: str) -> None:
    with pytest.raises(GoalError, match=says):
        check_names(parse_goal(text), card())
