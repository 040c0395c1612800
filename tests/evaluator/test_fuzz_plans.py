"""Fuzzed plans: whatever a model writes, screening gives a value or exactly one fault that names its line, and never raises."""

import re
from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.outcome import Fault, Stage, Verdict
from evaluator.screen import screen
from evaluator.task import load_task
from population.candidate import Language
from tests.evaluator.fuzzing import check_fault
from tests.evaluator.plan_cards import CPU, DATA, HOPPER, SCENARIOS, attention_card, scalars_of
from tests.evaluator.plan_mistakes import PLAN_MISTAKES, spoilt
from tests.evaluator.source_mistakes import SOURCE_MISTAKES

SEED, COUNT = 20_000, 20_000
SEEDS = load_task("attention_forward")
SOURCES = (
    (Language.CUDA, (DATA / "hopper_example.cu").read_text()),
    (Language.CUDA, SEEDS.seeds(Language.CUDA)["portable"].read_text()),
    (Language.CUDA, SEEDS.seeds(Language.CUDA)["hopper"].read_text()),
    (Language.CPP, SEEDS.seeds(Language.CPP)["cpu_plain"].read_text()),
    (Language.CPP, SEEDS.seeds(Language.CPP)["cpu_blocked"].read_text()),
)
CARD = attention_card(*SCENARIOS[:2], SCENARIOS[4], SCENARIOS[5])
EVERY = {**PLAN_MISTAKES, **SOURCE_MISTAKES}


def verdict_of(language: Language, source: str) -> str:
    """The verdict in a word, after everything that a verdict must hold was held against it."""
    found = screen(source, language, CARD, HOPPER if language is Language.CUDA else CPU, scalars_of)
    if not isinstance(found, Fault):
        assert [one.scenario for one in found.resolved] == [one.name for one in found.scenarios]
        return "screened"
    assert found.stage is Stage.SCREEN
    assert found.verdict in (Verdict.PLAN_ERROR, Verdict.UNSUPPORTED)
    line = re.match(r"line (\d+): \S", found.message)
    assert line is not None, found.message
    assert 1 <= int(line[1]) <= source.count("\n") + 1
    assert found.detail == ""
    check_fault(found)
    return found.verdict


@given(
    which=st.sampled_from(SOURCES),
    names=st.lists(st.sampled_from(sorted(EVERY)), min_size=1, max_size=4),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=300)
def test_mistakes_in_any_combination(which: tuple[Language, str], names: list[str], seed: int) -> None:
    language, source = which
    rng = Random(seed)
    for name in names:
        source = EVERY[name](rng, source)
    verdict_of(language, source)


@pytest.mark.parametrize("name", sorted(PLAN_MISTAKES))
def test_each_mistake_by_itself(name: str) -> None:
    verdicts = Counter(
        verdict_of(language, PLAN_MISTAKES[name](Random(seed), source)) for seed in range(4) for language, source in SOURCES
    )
    assert verdicts.total() == 4 * len(SOURCES)
    assert verdicts["PLAN_ERROR"] or name in ("tabs", "carriage returns")


@pytest.mark.slow
def test_twenty_thousand_plans() -> None:
    rng, verdicts = Random(SEED), Counter[str]()
    for number in range(COUNT):
        language, source = SOURCES[number % len(SOURCES)]
        verdicts[verdict_of(language, spoilt(rng, source, PLAN_MISTAKES))] += 1
    print(dict(verdicts))
    assert verdicts.total() == COUNT
    assert verdicts["PLAN_ERROR"] > COUNT // 2
