"""The CUDA seeds on a real GPU: right in every scenario that they claim of a small set of all kinds."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from evaluator.settings import cuda_settings
from evaluator.task import Task, load_task
from evaluator.task_card import Scenario
from population.candidate import Language
from tests.cheats.cuda_cases import RIGHT
from tests.gpu.cuda_session import Bench, open_bench

pytestmark = pytest.mark.gpu

SET = "kinds"
BASELINE = "sdpa_flash"
PLAIN = {"b": 1, "sq": 384, "sk": 384, "h": 4, "hkv": 4, "d": 128, "causal": 0, "window": 0, "dtype": "bf16"}
KINDS = {
    "d128": {},
    "d128_causal": {"causal": 1},
    "d64_causal": {"d": 64, "causal": 1},
    "d64_fp16": {"d": 64, "dtype": "fp16"},
    "d256_causal": {"d": 256, "causal": 1},
    "d96": {"d": 96},
    "grouped_causal": {"h": 8, "hkv": 2, "causal": 1},
    "odd_lengths_causal": {"sq": 333, "sk": 333, "causal": 1},
    "chunked_causal": {"sq": 128, "causal": 1},
    "window": {"causal": 1, "window": 100},
}
NOT_CLAIMED = {"portable": set(), "hopper_plain": {"d96", "window"}, "hopper": set()}


def of_all_kinds() -> Task:
    """attention_forward with the scenarios above as its only set."""
    task = load_task("attention_forward")
    scenarios = []
    for name, changes in KINDS.items():
        symbols = PLAIN | changes
        scenarios.append(Scenario(name=name, symbols=symbols, region=task.region(symbols)))
    return replace(task, scenarios={SET: tuple(scenarios)})


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    opened = open_bench(tmp_path_factory.mktemp("seeds"), of_all_kinds(), SET, cuda_settings("quick"), BASELINE)
    yield opened
    opened.harness.close()


@pytest.mark.parametrize("name", NOT_CLAIMED)
def test_a_seed_is_right_wherever_it_claims_to_be(bench: Bench, name: str) -> None:
    if name.startswith("hopper") and bench.arch != "sm_90a":
        pytest.skip(f"{name} is for sm_90a, this is {bench.arch}")
    outcome = bench.evaluate(load_task("attention_forward").seeds(Language.CUDA)[name].read_text())
    assert outcome.verdict in RIGHT, f"{outcome.verdict}: {outcome.message}"
    assert set(outcome.supported) == set(KINDS) - NOT_CLAIMED[name]
    assert all(check.passed for check in outcome.checks)
    assert "wgmma_serialized" not in outcome.facts
