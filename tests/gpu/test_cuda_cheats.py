"""Every bad CUDA candidate gets its verdict from the whole harness on a real GPU, unusual right ones are called right, and after
each group the good kernel is as fast as it was before."""

import os
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from evaluator.outcome import Effort, Outcome, Verdict
from tests.cheats.cuda_cases import (
    DEVICE_GROUPS,
    EITHER,
    GOOD,
    OFFLINE,
    OFFLINE_GROUPS,
    ON_DEVICE,
    RIGHT,
    SET,
    bad_source,
    honest_sources,
    light_task,
)
from tests.gpu.cuda_session import Bench, check_refusal, open_bench

pytestmark = pytest.mark.gpu

NOISE = 1.05
"""Between separate evaluations of one small kernel, beyond the intervals of each."""
GROUPS = {**OFFLINE_GROUPS, **DEVICE_GROUPS}
STEPS = [step for group, cases in GROUPS.items() for step in (*cases, f"then_a_good_kernel_{group}")]
KEPT_DESCRIPTORS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """The good kernel's intervals before any bad one, taken together, and the descriptors that this process then held."""

    low: float
    high: float
    descriptors: int


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    opened = open_bench(tmp_path_factory.mktemp("pack"), light_task(), SET)
    yield opened
    opened.harness.close()


@pytest.fixture(scope="module")
def before(bench: Bench) -> Before:
    scores = [good(bench).fitness for _ in range(4)][1:]  # the first one starts the processes
    known = [score for score in scores if score is not None]
    return Before(
        low=min(score.low for score in known),
        high=max(score.high for score in known),
        descriptors=len(os.listdir("/proc/self/fd")),
    )


def good(bench: Bench) -> Outcome:
    outcome = bench.evaluate(GOOD.read_text())
    assert outcome.verdict is Verdict.OK, outcome.message
    assert outcome.fitness is not None
    return outcome


@pytest.mark.parametrize("step", STEPS)
def test_bad_candidates_and_a_good_one_after_each_group(bench: Bench, before: Before, step: str) -> None:
    if step.startswith("then_a_good_kernel"):
        fitness = good(bench).fitness
        assert fitness is not None
        assert fitness.low <= before.high * NOISE
        assert fitness.high >= before.low / NOISE
        assert len(os.listdir("/proc/self/fd")) <= before.descriptors + KEPT_DESCRIPTORS
        return
    outcome = bench.evaluate(bad_source(step))
    if step in OFFLINE:
        verdict, words = OFFLINE[step]
        assert outcome.verdict is verdict, outcome.message
        assert words in outcome.message
    else:
        assert outcome.verdict in ON_DEVICE[step], f"{outcome.verdict}: {outcome.message}"
    check_refusal(outcome)


@pytest.mark.parametrize("name", honest_sources())
def test_a_right_kernel_is_called_right(bench: Bench, name: str) -> None:
    outcome = bench.evaluate(honest_sources()[name])
    assert outcome.verdict in RIGHT, f"{outcome.verdict}: {outcome.message}"
    assert {check.scenario for check in outcome.checks} == set(outcome.supported)
    assert all(check.passed for check in outcome.checks)
    assert int(outcome.facts["blocks_per_sm"]) >= 1


@pytest.mark.parametrize("name", EITHER)
def test_what_depends_on_the_gpu_is_right_or_caught(bench: Bench, name: str) -> None:
    outcome = bench.evaluate(bad_source(name))
    assert outcome.verdict in EITHER[name], f"{outcome.verdict}: {outcome.message}"


def test_a_hint_to_keep_data_in_the_cache_gains_nothing(bench: Bench) -> None:
    """Every execution finds the cache flushed and its contents new, so what an earlier one kept there is of no use."""
    scores = [bench.evaluate(honest_sources()[name]).fitness for name in ("conditional_launches", "keeps_data_close")]
    plain, hinted = (score for score in scores if score is not None)
    assert hinted.low <= plain.high * NOISE


@pytest.mark.parametrize("name", ["two_launches", "tensor_map_store", "persistent_counter", "declared_atomics"])
def test_a_right_kernel_passes_a_final(bench: Bench, name: str) -> None:
    outcome = bench.evaluate((GOOD.parent / f"{name}.cu").read_text(), Effort.FINAL)
    assert outcome.verdict in RIGHT, f"{outcome.verdict}: {outcome.message}"
