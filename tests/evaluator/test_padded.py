"""The kernels of benchmarks/noise.py that are slower by a known share: a right plan on every seed, with work per scenario."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from evaluator.cuda.offline import DEVICE_FACTS
from evaluator.outcome import Fault
from evaluator.screen import screen
from evaluator.task import load_task
from population.candidate import Language

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "padded.py"


@pytest.fixture(scope="module")
def padded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("padded", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("language", "seed", "set_name"),
    [(Language.CUDA, "hopper", "quick3"), (Language.CUDA, "portable", "quick3"), (Language.CPP, "cpu_blocked", "cpu_quick")],
)
def test_each_scenario_gets_its_own_work(padded: ModuleType, language: Language, seed: str, set_name: str) -> None:
    task = load_task("attention_forward")
    card = task.card(set_name)
    spins = [(scenario, 1000 + at) for at, scenario in enumerate(card.scenarios[:-1])]
    candidate = padded.padded(task.seeds(language)[seed].read_text(), language, spins)
    facts = DEVICE_FACTS["sm_90a"] if language is Language.CUDA else {"sm_count": 2, "shared_limit": 0}
    found = screen(candidate.source, language, card, facts, lambda one: task.scalars(one.symbols))
    assert not isinstance(found, Fault), found
    launches = [resolved.launches[-1] for resolved in found.resolved]
    assert {launch.kernel for launch in launches} == {"pad_work"}
    assert [launch.args[1].value for launch in launches] == [*(count for _, count in spins), 0]
    kernels = {resolved.launches[0].kernel for resolved in found.resolved}
    assert kernels == {"attention_forward"}
