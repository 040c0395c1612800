"""Every example names a task, a set, seeds and questions that are there, on any machine."""

from pathlib import Path

import pytest

from evaluator.outcome import Fault
from evaluator.plan.parse import parse_plan
from evaluator.plan.resolve import supported
from evolve.config import load_config
from evolve.parts import assemble

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.toml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_assembled_and_its_seeds_claim_every_scenario(path: Path) -> None:
    parts = assemble(load_config(path))
    for seed in parts.seeds():
        plan = parse_plan(seed.source, seed.language, parts.card)
        assert not isinstance(plan, Fault), plan
        claimed = supported(plan, parts.card)
        assert not isinstance(claimed, Fault), claimed
        assert len(claimed) == len(parts.card.scenarios)
    assert parts.terms.lookahead > parts.terms.workers or parts.spec.backend == "cpu"
