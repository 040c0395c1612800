"""Bug reports of other harnesses about times that meant nothing: each situation again, and what happens to it here.

A test is named after the repository and the number of its issue or pull request.
"""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from evaluator.outcome import Fault, Timing, Verdict
from evaluator.roofline import Work, floor_us
from evaluator.statistics import Interval, geometric_mean
from evaluator.timing import race
from tests.evaluator.fake_backend import DEVICE, Behaviour, FakeBackend, noisy
from tests.evaluator.tiny_harness import QUICK, side, terms


def raced(one: Behaviour, other: Behaviour, **changes: object) -> Timing | Fault:
    backend = FakeBackend()
    return race(side(backend, one), side(backend, other), terms(backend, **changes))


@pytest.mark.parametrize(
    ("time_us", "verdict"),
    [
        (0.0, Verdict.HARNESS_FAULT),
        (-1.0, Verdict.HARNESS_FAULT),
        (math.nan, Verdict.HARNESS_FAULT),
        (1e-12, Verdict.TOO_FAST),
    ],
)
def test_reference_kernels_159_an_absurd_time_ranks_first(time_us: float, verdict: Verdict) -> None:
    found = raced(Behaviour(time_us=lambda scenario, execution: time_us), Behaviour())
    assert isinstance(found, Fault)
    assert found.verdict is verdict


def test_reference_kernels_155_one_row_lifts_the_whole_score() -> None:
    """There a row of 1102x raised the mean to 1.618x. Such a time is below the floor here, so no mean ever sees it."""
    usual = [Interval(ratio=0.97, low=0.96, high=0.98)] * 15
    absurd = Interval(ratio=1102.0, low=1100.0, high=1104.0)
    assert geometric_mean([*usual, absurd]).ratio > 1.4
    floor = floor_us(Work(flop=1e9, bytes=1e6), DEVICE, "fp32")
    opponent_us = 2 * floor.us
    found = raced(
        Behaviour(time_us=lambda scenario, execution: opponent_us / 1102),
        Behaviour(time_us=lambda scenario, execution: opponent_us),
        floor=floor,
    )
    assert isinstance(found, Fault)
    assert found.verdict is Verdict.TOO_FAST


def test_kernelbot_501_every_iteration_gets_the_same_input() -> None:
    backend = FakeBackend()
    one = side(backend, Behaviour())
    assert isinstance(race(one, side(backend, Behaviour()), terms(backend)), Timing)
    contents = [content for runner, content, _ in backend.fills if runner is one]
    slots = [slot for runner, window in backend.windows if runner is one for slot in window]
    assert max(len(list(same)) for _, same in itertools.groupby(contents)) < 4, "contents change from execution to execution"
    assert len(set(slots)) == one.slots, "and so do buffers"


@pytest.mark.parametrize(("claimed_gbs", "verdict"), [(3530.0, Verdict.TOO_FAST), (714.0, None)])
def test_llm_c_851_more_bandwidth_than_the_card_has(claimed_gbs: float, verdict: Verdict | None) -> None:
    moved = 64e6
    floor = floor_us(Work(flop=0.0, bytes=moved), replace(DEVICE, kind="cuda", peak_gbs=864.0), "fp16")
    time_us = moved / (claimed_gbs * 1e3)
    found = raced(Behaviour(time_us=lambda scenario, execution: time_us), Behaviour(), floor=replace(floor))
    assert (found.verdict if isinstance(found, Fault) and found.verdict is Verdict.TOO_FAST else None) is verdict


def test_nvbench_231_every_sample_is_throttled_and_nothing_is_left() -> None:
    readings = itertools.count(step=10**6)
    found = raced(Behaviour(), Behaviour(), pressure=lambda: next(readings))
    assert isinstance(found, Timing)
    assert found.blocks >= QUICK.looks[0]
    assert 0 < found.dropped <= found.blocks


def test_nvbench_61_noise_never_converges() -> None:
    rng = np.random.default_rng(0)
    found = raced(Behaviour(time_us=noisy(rng, 10.0, 0.6)), Behaviour(time_us=noisy(rng, 10.0, 0.6)))
    assert isinstance(found, Timing)
    assert found.blocks == QUICK.looks[-1]
    assert found.ambiguous


def test_helion_3523_windows_one_after_the_other_reverse_the_order() -> None:
    """A slower clock from one window to the next makes the 2 % faster kernel look slower; in one race it is still the faster."""
    backend = FakeBackend()
    rng = np.random.default_rng(1)

    def drifting(mean_us: float) -> Behaviour:
        noise = noisy(rng, mean_us, 0.002)
        return Behaviour(time_us=lambda scenario, execution: noise(scenario, execution) * math.exp(0.5 * backend.clock.now_s))

    def window(behaviour: Behaviour) -> float:
        runner = side(backend, behaviour)
        times = []
        for _ in range(1000):
            runner.fill(0, {"x": np.ones((4, 8), np.float32)}, 0)
            ran = runner.run([0], 1.0)
            assert not isinstance(ran, Fault)
            times.append(ran.elapsed_us)
        return float(np.median(times))

    slow, quick = drifting(100.0), drifting(98.0)
    assert window(slow) < window(quick), "one after the other: the wrong order"
    found = race(side(backend, quick), side(backend, slow), terms(backend))
    assert isinstance(found, Timing)
    assert found.low > 1.0
    assert found.ratio == pytest.approx(100 / 98, rel=0.005)


def test_backendbench_a_failed_test_counts_as_no_speed_up() -> None:
    """There a kernel that failed entered the mean as 1.0. A race that failed here has no ratio that could enter one."""
    found = raced(Behaviour(spoil=lambda execution, right, before: before), Behaviour())
    assert isinstance(found, Fault)
    assert not hasattr(found, "ratio")
