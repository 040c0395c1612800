"""Arms side by side: what is counted, what is refused, and when a winner may be named."""

import math
from dataclasses import replace

import pytest

from results.comparison import NotComparableError, comparison_of
from results.comparison_contests import Contest
from results.comparison_trace import Gain, Trace
from tests.results.traces import SETTINGS, TERMS, arms, curve, trace

EIGHT = [1.0, 1.1, 1.2, 1.05, 1.15, 1.3, 0.9, 1.25]
FASTER = [1.08 * best for best in EIGHT]


def contest_of(traces: list[Trace]) -> Contest:
    (contest,) = comparison_of(traces).contests
    return contest


def test_a_clear_difference_over_eight_pairs_has_a_winner() -> None:
    contest = contest_of(arms(FASTER, EIGHT))
    assert contest.leader == "one"
    assert contest.best is not None
    assert contest.best.pairs == 8
    assert contest.best.mean == pytest.approx(math.log(1.08))
    assert contest.says.startswith("one over other 1.080x; chance alone")
    assert contest_of(arms(EIGHT, FASTER)).leader == "other"


def test_one_run_an_arm_is_no_conclusion() -> None:
    contest = contest_of(arms([5.0], [1.0]))
    assert contest.leader is None
    assert contest.says == "1 run an arm: no conclusion"
    assert contest.best is not None
    assert (contest.best.low, contest.best.high) == (None, None)


def test_three_pairs_that_all_agree_are_no_conclusion_and_it_says_how_many_could_be() -> None:
    contest = contest_of(arms([2.0, 2.1, 2.2], [1.0, 1.0, 1.0]))
    assert contest.leader is None
    assert "3 pairs can't tell from chance (1 in 4 at best, where 1 in 20 is asked for, 6 or more could)" in contest.says


def test_no_winner_below_the_noise_floor() -> None:
    noisy = [replace(run, noise_pct=10.0) if run.seed == 3 else run for run in arms(FASTER, EIGHT)]
    contest = contest_of(noisy)
    assert contest.leader is None
    assert "within the noise floor of 10.00 %" in contest.says


def test_a_difference_that_chance_brings_about_is_no_conclusion() -> None:
    contest = contest_of(arms([1.3, 0.9, 1.2, 1.0, 1.4, 0.8, 1.1, 1.3], [1.0, 1.2, 0.9, 1.3, 1.1, 1.0, 0.9, 1.2]))
    assert contest.leader is None
    assert "chance alone brings about" in contest.says


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"stopped_by": "requested"}, "not every run is finished"),
        ({"stopped_by": None}, "not every run is finished"),
        ({"settings": SETTINGS | {"budget.candidates": "40"}}, "differ in budget.candidates"),
    ],
)
def test_a_confounded_or_unfinished_comparison_has_no_winner(changes: dict[str, object], word: str) -> None:
    traces = [replace(run, **changes) if run.name == "one-2" else run for run in arms(FASTER, EIGHT)]
    comparison = comparison_of(traces)
    assert comparison.contests[0].leader is None
    assert word in comparison.contests[0].says
    assert comparison.cautions


def test_an_unverified_best_names_no_winner() -> None:
    traces = arms(FASTER, EIGHT)
    assert traces[0].best is not None
    traces[0] = replace(traces[0], best=replace(traces[0].best, verified=False))
    comparison = comparison_of(traces)
    assert comparison.contests[0].leader is None
    assert comparison.arms[0].verified == 7
    assert any("one-0" in caution for caution in comparison.cautions)


@pytest.mark.parametrize("term", TERMS)
def test_runs_without_a_common_scale_are_refused_and_it_says_what_differs_where(term: str) -> None:
    traces = arms([1.0], [1.1])
    traces[1] = replace(traces[1], terms=TERMS | {term: "another"})
    with pytest.raises(NotComparableError, match=f"{term}: .* in one-0; another in other-0"):
        comparison_of(traces)


def test_a_run_with_nothing_measured_is_refused_by_name() -> None:
    with pytest.raises(NotComparableError, match="nothing is measured yet in other-1"):
        comparison_of([trace("one", 1, 1.0), replace(trace("other", 1, 1.0), best=None)])


def test_runs_of_other_seeds_are_compared_unpaired() -> None:
    others = [trace("other", 10 + seed, best) for seed, best in enumerate(EIGHT)]
    contest = contest_of([*(trace("one", seed, 2 * best) for seed, best in enumerate(EIGHT)), *others])
    assert contest.best is not None
    assert contest.best.pairs == 0
    assert contest.leader == "one"


def test_three_arms_share_the_chance_of_a_wrong_winner() -> None:
    six = EIGHT[:6]
    traces = arms([1.1 * best for best in six], six)
    assert contest_of(traces).leader == "one"
    third = [trace("third", seed, 0.9 * best) for seed, best in enumerate(six)]
    comparison = comparison_of([*traces, *third])
    assert [contest.leader for contest in comparison.contests] == [None, None, None]
    assert all("1 in 32 at best, where 1 in 60 is asked for, 7 or more could" in contest.says for contest in comparison.contests)


def test_counts_levels_and_gains_are_over_all_runs_of_an_arm() -> None:
    gains = (Gain(key="memory", asked=3, accepted=1, gain=0.2), Gain(key="launch", asked=1, accepted=0, gain=0.0))
    slow = trace("one", 2, 0.6, points=curve([0.5, 0.5, 0.5, 0.6, 0.6]), layers=gains[1:])
    comparison = comparison_of([trace("one", 1, 1.0, layers=gains), slow], levels=[0.9, 0.55])
    (arm,) = comparison.arms
    assert (arm.answers, arm.evaluations, arm.accepted, arm.accepted_share) == (8, 10, 4, 0.5)
    assert arm.rejections == {"no_match": 2}
    assert [(one.level, one.runs, one.answers) for one in arm.reached] == [(0.55, 2, 2.5), (0.9, 1, None)]
    assert arm.layers == (gains[0], Gain(key="launch", asked=2, accepted=0, gain=0.0))
    assert comparison.contests == ()


def test_the_area_is_taken_where_all_runs_are() -> None:
    short = trace("one", 1, 1.0, points=curve([1.0, 1.0, 2.0]))
    long = trace("other", 1, 1.0, points=curve([1.0, 4.0, 4.0, 9.0, 9.0, 9.0]))
    comparison = comparison_of([short, long])
    assert comparison.ranges["answers"] == (0, 2)
    assert comparison.arms[0].area["answers"].ratio == pytest.approx(1.0)
    assert comparison.arms[1].area["answers"].ratio == pytest.approx(2.0)
    assert "gpu_s" not in comparison.ranges
