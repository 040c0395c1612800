"""The race on programmed sides: estimates, stops, wrong executions, disturbances, impossible times."""

import math
from dataclasses import replace

import numpy as np
import pytest

from evaluator.outcome import Fault, Timing, Verdict
from evaluator.roofline import Floor
from evaluator.settings import HarnessSettings
from evaluator.timing import race
from tests.evaluator.fake_backend import Behaviour, FakeBackend, Outputs, fault, noisy
from tests.evaluator.tiny_harness import QUICK, side, terms


def raced(candidate: Behaviour, opponent: Behaviour, **changes: object) -> Timing | Fault:
    backend = FakeBackend()
    return race(side(backend, candidate), side(backend, opponent), terms(backend, **changes))


def timed(found: Timing | Fault) -> Timing:
    assert isinstance(found, Timing), found
    return found


def test_ratio_is_how_many_times_faster_the_candidate_is() -> None:
    rng = np.random.default_rng(0)
    found = timed(raced(Behaviour(time_us=noisy(rng, 50.0)), Behaviour(time_us=noisy(rng, 100.0))))
    assert found.low < 2.0 < found.high
    assert found.ratio == pytest.approx(2.0, rel=0.02)
    assert found.candidate_us == pytest.approx(50.0, rel=0.02)
    assert found.opponent_us == pytest.approx(100.0, rel=0.02)


def test_a_fast_device_drift_leaves_the_ratio_alone() -> None:
    backend = FakeBackend()
    drifting = Behaviour(time_us=lambda scenario, execution: 100.0 * math.exp(20.0 * backend.clock.now_s))
    found = timed(race(side(backend, drifting), side(backend, drifting), terms(backend)))
    assert found.ratio == pytest.approx(1.0, abs=0.002)


def test_a_race_against_itself_is_covered_at_the_nominal_rate() -> None:
    covered = 0
    runs = 200
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        same = Behaviour(time_us=noisy(rng, 100.0, 0.05))
        found = timed(raced(same, same))
        covered += found.low <= 1.0 <= found.high
    assert covered / runs >= 0.95 - 3.0 * math.sqrt(0.05 * 0.95 / runs)


def covered_between_starts(settings: HarnessSettings) -> float:
    """The share of races of equals that hold 1.0 where each start of a process shifts its times by a quarter of a microsecond."""
    covered, runs = 0, 200
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        shifted = Behaviour(time_us=noisy(rng, 100.0 + 0.25 * rng.standard_normal(), 0.0005))
        found = timed(raced(shifted, Behaviour(time_us=noisy(rng, 100.0, 0.0005)), settings=settings))
        covered += found.low <= 1.0 <= found.high
    return covered / runs


def test_what_differs_from_start_to_start_widens_the_interval() -> None:
    assert covered_between_starts(QUICK) < 0.8
    assert covered_between_starts(replace(QUICK, between_starts_us=0.25)) >= 0.95 - 3.0 * math.sqrt(0.05 * 0.95 / 200)


def test_what_differs_from_start_to_start_takes_no_further_blocks() -> None:
    found = timed(raced(Behaviour(), Behaviour(), settings=replace(QUICK, between_starts_us=20.0)))
    assert found.blocks == 8
    assert found.high > 1.2
    assert not found.ambiguous


def test_a_narrow_interval_ends_the_race_at_the_first_look() -> None:
    assert timed(raced(Behaviour(), Behaviour())).blocks == 8


def test_a_wide_interval_at_the_last_look_is_ambiguous() -> None:
    rng = np.random.default_rng(1)
    found = timed(raced(Behaviour(time_us=noisy(rng, 100.0, 0.5)), Behaviour(time_us=noisy(rng, 100.0, 0.5))))
    assert found.blocks == 16
    assert found.ambiguous


def test_no_look_is_started_beyond_the_cap() -> None:
    rng = np.random.default_rng(2)
    slow = Behaviour(time_us=noisy(rng, 1e6, 0.1))
    found = timed(raced(slow, slow, settings=replace(QUICK, race_cap_s=1.0)))
    assert found.blocks == 8


def test_a_hopeless_candidate_is_stopped_at_the_first_look() -> None:
    rng = np.random.default_rng(3)
    slow = Behaviour(time_us=noisy(rng, 300.0, 0.1))
    found = timed(raced(slow, Behaviour(time_us=noisy(rng, 100.0, 0.1)), stop_below=0.9))
    assert found.blocks == 8
    assert found.high < 0.9
    assert not found.ambiguous


def test_a_window_is_a_batch_of_distinct_executions_long_enough_for_the_clock() -> None:
    backend = FakeBackend()
    race(side(backend, Behaviour()), side(backend, Behaviour()), terms(backend, settings=replace(QUICK, batch_us=400.0)))
    sizes = {len(slots) for _, slots in backend.windows[-32:]}
    assert sizes == {4}


def test_both_sides_lead_in_turn_and_share_their_inputs() -> None:
    backend = FakeBackend()
    one, two = side(backend, Behaviour()), side(backend, Behaviour())
    race(one, two, terms(backend))
    order = ["A" if runner is one else "B" for runner, _ in backend.windows[-32:]]
    blocks = ["".join(order[index : index + 4]) for index in range(0, 32, 4)]
    assert blocks == ["ABBA", "BAAB"] * 4
    seen = {
        name: sorted(content for runner, content, _ in backend.fills[-64:] if runner is runs)
        for name, runs in (("A", one), ("B", two))
    }
    assert seen["A"] == seen["B"]


def test_contents_and_poisons_change_all_the_time() -> None:
    backend = FakeBackend()
    one = side(backend, Behaviour())
    race(one, side(backend, Behaviour()), terms(backend))
    contents = [content for runner, content, _ in backend.fills if runner is one]
    assert len(set(contents)) > len(contents) // 2
    assert {poison for _, _, poison in backend.fills} == {0, 1, 2}


@pytest.mark.parametrize("number", [2, 3, 9, 20, 33])
def test_one_wrong_timed_execution_is_enough(number: int) -> None:
    def spoil(execution: int, right: Outputs, before: Outputs) -> Outputs:
        if execution == number:
            right["y"][-1, -1] += 1.0
        return right

    found = raced(Behaviour(spoil=spoil), Behaviour())
    assert isinstance(found, Fault)
    assert found.verdict is Verdict.WRONG
    assert "row=" in found.message


def test_every_timed_execution_is_compared() -> None:
    backend = FakeBackend()
    compared = []
    race_terms = terms(backend)
    judged = race_terms.judge
    counted = replace(race_terms, judge=lambda draw, outputs: compared.append(1) or judged(draw, outputs))
    one = side(backend, Behaviour())
    race(one, side(backend, Behaviour()), counted)
    assert len(compared) == sum(len(slots) for runner, slots in backend.windows if runner is one) - 2  # two level runs


@pytest.mark.parametrize("compared", [1, 3])
def test_of_each_window_a_secret_few_are_compared(compared: int) -> None:
    backend = FakeBackend()
    seen: list[int] = []
    race_terms = terms(backend, settings=replace(QUICK, batch_us=400.0), compared=compared)
    one = side(backend, Behaviour())
    read = one.read
    one.read = lambda slot: seen.append(slot) or read(slot)  # type: ignore[method-assign,func-returns-value]
    race(one, side(backend, Behaviour()), race_terms)
    windows = [slots for runner, slots in backend.windows if runner is one and len(slots) == 4]
    assert len(windows) == 16
    assert len(seen) == compared * len(windows)
    places = {slots.index(slot) for slots, slot in zip(windows, seen[::compared], strict=True)}
    assert len(places) > 1


def test_one_wrong_execution_of_many_is_found_sooner_or_later_among_a_few() -> None:
    def spoil(execution: int, right: Outputs, before: Outputs) -> Outputs:
        right["y"][0, 0] += 1.0 if execution % 4 == 1 else 0.0
        return right

    found = raced(Behaviour(spoil=spoil), Behaviour(), settings=replace(QUICK, batch_us=400.0), compared=1)
    assert isinstance(found, Fault)
    assert found.verdict is Verdict.WRONG


def test_output_kept_from_an_earlier_execution_is_caught() -> None:
    cache: list[Outputs] = []

    def replay(execution: int, right: Outputs, before: Outputs) -> Outputs:
        cache.append(right)
        return cache[0]

    found = raced(Behaviour(spoil=replay), Behaviour())
    assert isinstance(found, Fault)
    assert found.verdict is Verdict.WRONG


def test_faster_than_physics_is_a_verdict_and_never_a_score() -> None:
    found = raced(Behaviour(time_us=lambda s, e: 0.9), Behaviour(), floor=Floor(us=1.0, bound="bytes"))
    assert isinstance(found, Fault)
    assert found.verdict is Verdict.TOO_FAST
    assert "bytes" in found.message
    assert isinstance(raced(Behaviour(time_us=lambda s, e: 0.96), Behaviour(), floor=Floor(us=1.0, bound="bytes")), Timing)


@pytest.mark.parametrize("elapsed_us", [0.0, -5.0, math.nan, math.inf])
def test_a_time_that_is_none_blames_the_harness(elapsed_us: float) -> None:
    found = raced(Behaviour(time_us=lambda s, e: elapsed_us), Behaviour())
    assert isinstance(found, Fault)
    assert found.verdict is Verdict.HARNESS_FAULT


def test_a_fault_of_the_candidate_keeps_its_verdict() -> None:
    found = raced(Behaviour(faults={6: fault(Verdict.CRASH)}), Behaviour())
    assert isinstance(found, Fault)
    assert found.verdict is Verdict.CRASH


def test_what_the_audit_finds_after_the_race_counts() -> None:
    found = raced(Behaviour(audit_fault=fault(Verdict.INPUT_MUTATED)), Behaviour())
    assert isinstance(found, Fault)
    assert found.verdict is Verdict.INPUT_MUTATED


def _broken(execution: int, right: Outputs, before: Outputs) -> Outputs:
    return before


@pytest.mark.parametrize(
    "opponent",
    [
        Behaviour(faults={6: fault(Verdict.CRASH)}),
        Behaviour(spoil=_broken),
        Behaviour(time_us=lambda s, e: 0.1),
        Behaviour(time_us=lambda s, e: math.nan),
    ],
    ids=["crash", "wrong", "too fast", "no time"],
)
def test_the_opponents_faults_never_blame_the_candidate(opponent: Behaviour) -> None:
    found = raced(Behaviour(), opponent)
    assert isinstance(found, Fault)
    assert found.verdict is Verdict.HARNESS_FAULT
    assert "peer" in found.message or "clock" in found.message


def test_disturbed_blocks_are_dropped_whole_and_only_so_many() -> None:
    readings = iter(range(0, 10**9, 1000))  # every block: 1 ms of waiting in well under 50 ms
    found = timed(raced(Behaviour(), Behaviour(), pressure=lambda: next(readings)))
    assert found.dropped == 4  # half of the first look, then disturbed blocks are kept
    assert found.blocks == 8


def test_a_disturbance_in_one_block_costs_that_block_only() -> None:
    backend = FakeBackend()
    seen = iter([0, 0, 0, 10**6, *[10**6] * 100])
    outlier = Behaviour(time_us=lambda s, e: 5000.0 if 6 <= e < 10 else 100.0)
    found = timed(race(side(backend, outlier), side(backend, Behaviour()), terms(backend, pressure=lambda: next(seen))))
    assert found.dropped == 1
    assert (found.low, found.high) == pytest.approx((1.0, 1.0))


def test_one_slot_a_side_is_refused() -> None:
    backend = FakeBackend()
    found = race(side(backend, Behaviour(), 1), side(backend, Behaviour(), 1), terms(backend))
    assert isinstance(found, Fault)
    assert "two slots" in found.message
