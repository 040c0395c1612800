"""A few bad kernels of attention_forward on a real GPU, and a plain right one before and after them."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from evaluator.outcome import Effort, Verdict
from tests.cheats.cuda_cases import ATTENTION, GOOD_ATTENTION, RIGHT, SET, attention_source, honest_attention, small_attention
from tests.cheats.variants import BY_FINAL_ONLY
from tests.gpu.cuda_session import SETTINGS, Bench, check_refusal, open_bench

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    settings = replace(SETTINGS, search_distributions=len(small_attention().distributions))
    opened = open_bench(tmp_path_factory.mktemp("attention"), small_attention(), SET, settings, "sdpa_flash")
    yield opened
    opened.harness.close()


@pytest.mark.parametrize("step", ["first_a_good_kernel", *ATTENTION, "then_a_good_kernel"])
def test_verdicts(bench: Bench, step: str) -> None:
    name = step if step in ATTENTION else GOOD_ATTENTION.stem
    outcome = bench.evaluate(attention_source(name))
    if name == GOOD_ATTENTION.stem:
        assert outcome.verdict in RIGHT, f"{outcome.verdict}: {outcome.message}"
        return
    assert outcome.verdict in ATTENTION[name], f"{outcome.verdict}: {outcome.message}"
    check_refusal(outcome)


@pytest.mark.parametrize("name", honest_attention())
def test_a_right_kernel_is_called_right(bench: Bench, name: str) -> None:
    outcome = bench.evaluate(honest_attention()[name])
    assert outcome.verdict in RIGHT, f"{outcome.verdict}: {outcome.message}"
    assert {check.scenario for check in outcome.checks} == set(outcome.supported)


def test_a_kernel_that_knows_the_shapes_meets_hidden_ones_in_a_final(bench: Bench) -> None:
    assert bench.evaluate(BY_FINAL_ONLY.source).verdict in RIGHT
    outcome = bench.evaluate(BY_FINAL_ONLY.source, Effort.FINAL)
    assert outcome.verdict is Verdict.WRONG, f"{outcome.verdict}: {outcome.message}"
    assert outcome.fault is not None
    assert str(outcome.fault.scenario).startswith("hidden")
