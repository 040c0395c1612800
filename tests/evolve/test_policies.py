"""What a run's policy of parents and its resets change, and that the same seed still gives the same run."""

from pathlib import Path

import pytest

from evaluator.simulated import SimulatedEvaluator
from evolve.api import resume, run
from evolve.config import RunConfig
from evolve.parts import assemble
from evolve.state import State
from evolve.stopping import StopReason
from population.selection import POLICIES
from results.events import StepPosed
from tests.evolve.simulation import card, config, essence, shuffled, stored
from tests.evolve.test_loop import Stopping


def configured(policy: str, reset_after: int = 0) -> RunConfig:
    return config(
        population={"selection": policy, "reset_after": reset_after}, sweep={"evaluations": 0}, budget={"candidates": 16}
    )


@pytest.mark.parametrize("policy", POLICIES)
def test_the_order_of_completion_and_a_resumption_change_nothing(policy: str, tmp_path: Path) -> None:
    whole = run(configured(policy, 2), root=tmp_path / "whole", executor=shuffled(workers=1))
    reference = essence(stored(whole.folder))
    other = run(configured(policy, 2), root=tmp_path / "other", executor=shuffled(workers=8, seed=3))
    assert essence(stored(other.folder)) == reference
    stopping = Stopping(SimulatedEvaluator(card(), 5), 4, 0)
    stopping.folder, stopping.after = tmp_path / "sim", 7
    assert run(configured(policy, 2), root=tmp_path, executor=stopping).stopped_by is StopReason.REQUESTED
    again = resume(tmp_path / "sim", executor=shuffled(workers=3, seed=1))
    assert essence(stored(again.folder)) == reference


def test_hill_climbing_asks_the_best_of_the_island_alone(tmp_path: Path) -> None:
    result = run(configured("best"), root=tmp_path, executor=shuffled())
    state = State(assemble(configured("best")).card, assemble(configured("best")).rules)
    parents, leaders = [], []
    for event in stored(result.folder):
        if isinstance(event, StepPosed):
            parents.append(event.step.parent_id)
            leaders.append(state.archive.members(event.step.island)[0].candidate_id)
        state.apply(event)
    assert parents == leaders


def test_a_reset_changes_a_run_and_none_is_made_unless_configured(tmp_path: Path) -> None:
    plain = essence(stored(run(configured("rank"), root=tmp_path / "plain", executor=shuffled()).folder))
    never = essence(stored(run(configured("rank", 10_000), root=tmp_path / "never", executor=shuffled()).folder))
    often = essence(stored(run(configured("rank", 1), root=tmp_path / "often", executor=shuffled()).folder))
    assert plain[1] == never[1]
    assert often[1] != plain[1]
