"""Finals in rounds: fresh processes, apart in time, one timing a scenario; and Student's interval over the rounds."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evaluator.harness import Harness
from evaluator.outcome import Effort, Outcome, Timing, Verdict
from evaluator.request import Request
from evaluator.restarts import combined, looks_of_a_round
from evaluator.settings import HarnessSettings, cuda_settings, full_settings, quick_settings
from evaluator.statistics import Interval, over_restarts, student_quantile
from evaluator.task_card import Scenario
from tests.evaluator.fake_backend import Behaviour, FakeBackend, candidate, fault
from tests.evaluator.tiny_harness import QUICK, harness

ONE = candidate("one")


class Starts:
    """Times of a side that each start of its process shifts: by the start's place in ``shifts``, over and over."""

    def __init__(self, shifts: list[float]) -> None:
        self.shifts, self.started = shifts, -1

    def __call__(self, scenario: Scenario, execution: int) -> float:
        if execution == 0:
            self.started += 1
        return 100.0 * math.exp(self.shifts[self.started % len(self.shifts)])


def final(tmp_path: Path, backend: FakeBackend, settings: HarnessSettings = QUICK) -> Outcome:
    return evaluated(harness(backend, tmp_path, settings=settings))


def evaluated(judge: Harness, effort: Effort = Effort.FINAL) -> Outcome:
    return judge.evaluate(Request(candidate=ONE, effort=effort))


def test_student_quantiles_are_those_of_the_tables() -> None:
    found = [student_quantile(degrees, 0.05) for degrees in (1, 2, 3, 4, 9, 30)]
    assert found == pytest.approx([12.706, 4.303, 3.182, 2.776, 2.262, 2.042], abs=5e-4)
    assert student_quantile(3, 0.01) == pytest.approx(5.841, abs=5e-4)


def test_the_interval_holds_the_spread_of_the_medians() -> None:
    races = [Interval(ratio=math.exp(x), low=math.exp(x), high=math.exp(x)) for x in (0.01, -0.01, 0.03, 0.01)]
    found = over_restarts(races, 0.05)
    assert math.log(found.ratio) == pytest.approx(0.01)
    half = 3.18245 * math.sqrt(0.0008 / 3) / 2
    assert (math.log(found.low), math.log(found.high)) == pytest.approx((0.01 - half, 0.01 + half), abs=1e-5)


def test_medians_that_agree_by_luck_keep_the_width_of_their_races() -> None:
    found = over_restarts([Interval(ratio=1.0, low=0.96, high=1.02)] * 4, 0.05)
    assert (math.log(found.low), math.log(found.high)) == pytest.approx((0.5 * math.log(0.96), 0.5 * math.log(1.02)))
    with pytest.raises(ValueError, match="at least two races"):
        over_restarts([Interval(ratio=1.0, low=0.96, high=1.02)], 0.05)


@pytest.mark.parametrize(
    ("looks", "rounds", "expected"),
    [
        ((8, 16, 32, 64), 1, (8, 16, 32, 64)),
        ((8, 16, 32, 64), 4, (8, 16)),
        ((8, 16, 32, 64), 3, (8, 16)),
        ((8, 16, 32), 4, (8,)),
        ((8, 16), 8, (8,)),
    ],
)
def test_rounds_share_the_blocks(looks: tuple[int, ...], rounds: int, expected: tuple[int, ...]) -> None:
    assert looks_of_a_round(looks, rounds) == expected


def test_a_combined_timing_counts_all_blocks() -> None:
    first = Timing(
        scenario="n4", opponent="peer", ratio=1.0, low=0.99, high=1.01, candidate_us=10.0, opponent_us=10.0, blocks=8,
        floor_us=1.0, bound="flop", dropped=1,
    )  # fmt: skip
    found = combined([first, replace(first, ratio=1.2, low=1.2, high=1.2, candidate_us=20.0, blocks=16)], QUICK)
    assert (found.blocks, found.dropped, found.candidate_us, found.opponent_us) == (24, 2, 15.0, 10.0)
    assert found.ambiguous
    assert (found.scenario, found.opponent, found.floor_us) == ("n4", "peer", 1.0)


def test_a_final_races_in_rounds_and_a_search_once(tmp_path: Path) -> None:
    backend = FakeBackend()
    judge = harness(backend, tmp_path, settings=replace(QUICK, restarts=3))
    assert evaluated(judge, Effort.SEARCH).verdict is Verdict.OK
    backend.windows.clear()
    assert evaluated(judge).verdict is Verdict.OK
    raced = dict.fromkeys(
        side for side, slots in backend.windows if len(slots) > 1 and not side.scenario.name.startswith("hidden")
    )
    names = [side.scenario.name for side in raced]
    assert names[:18] == ["n4", "n4", "n8", "n8", "n16", "n16"] * 3  # two new sides a race, all scenarios before any again


def test_what_a_start_decides_is_in_a_finals_interval(tmp_path: Path) -> None:
    shifts = [0.01, -0.02, 0.02, -0.01]
    found = final(tmp_path, FakeBackend(behaviours={"peer": Behaviour(time_us=Starts(shifts))}), replace(QUICK, restarts=4))
    assert found.fitness is not None
    assert found.fitness.low < 1.0 < found.fitness.high
    once = final(tmp_path, FakeBackend(behaviours={"peer": Behaviour(time_us=Starts(shifts))}), replace(QUICK, restarts=1))
    assert once.fitness is not None
    assert once.fitness.high - once.fitness.low < 1e-9


def test_a_fault_in_a_later_round_counts(tmp_path: Path) -> None:
    backend = FakeBackend()
    judge = harness(backend, tmp_path, settings=replace(QUICK, restarts=2))
    started: list[str] = []
    begin = backend.start

    def breaks(program: object, slots: int) -> object:
        if slots > 2:
            started.append(program.scenario.name)  # type: ignore[attr-defined]
        if started == ["n4", "n8", "n16", "n4", "n8"]:
            return fault(Verdict.CRASH)
        return begin(program, slots)  # type: ignore[arg-type]

    backend.start = breaks  # type: ignore[method-assign, assignment]
    found = evaluated(judge)
    assert found.verdict is Verdict.CRASH
    assert found.fitness is None


def test_who_restarts() -> None:
    assert (full_settings().restarts, quick_settings().restarts, cuda_settings().restarts) == (4, 4, 1)
    with pytest.raises(ValueError, match="restarts must lie between"):
        HarnessSettings(restarts=0)


def test_the_best_of_many_is_biased_upwards_and_its_final_is_not(tmp_path: Path) -> None:
    """Equal kernels: whoever was lucky leads the search; a final draws its luck anew."""
    rng = np.random.default_rng(3)

    def start_luck(scenario: Scenario, execution: int) -> float:
        if execution == 0:
            state[0] = 0.02 * float(rng.standard_normal())
        return 100.0 * math.exp(state[0] + 0.002 * float(rng.standard_normal()))

    state = [0.0]
    backend = FakeBackend(behaviours={"peer": Behaviour(time_us=start_luck)})
    judge = harness(backend, tmp_path, settings=replace(QUICK, looks=(8,), restarts=4))
    luck = [evaluated(judge, Effort.SEARCH).fitness for _ in range(20)]
    best = max(found.low for found in luck if found is not None)
    assert best > 1.01
    published = [evaluated(judge).fitness for _ in range(8)]
    assert sum(found.low <= 1.0 <= found.high for found in published if found is not None) >= 6
