"""What other searches got wrong with duplicates, failures and the best: their reports, as tests of the population."""

import numpy as np
import pytest

from evaluator.outcome import Verdict
from population.candidate import Language
from population.islands import IslandArchive
from population.lineage import Lineage
from population.novelty import Known, Likeness, candidate_of
from population.selection import POLICIES, select
from tests.contracts.archive import child_step, outcome_of, seed_step


def test_e13_a_source_that_is_proposed_again_is_one_member_with_two_edges() -> None:
    first = candidate_of("int f() { return 1; }\n", Language.CPP)
    again = candidate_of("int f()  { return 1; } // one\n", Language.CPP)
    known = Known([first])
    match = known.duplicate(again)
    assert match is not None
    assert (match.candidate_id, match.likeness) == (first.id, Likeness.NORMALISED)
    steps = [seed_step(0, "seed"), child_step(1, first.id, 0), child_step(2, match.candidate_id, 0, parent_id=first.id)]
    lineage, archive = Lineage(steps), IslandArchive(scenarios=2, islands=1)
    archive.fold(steps[0], outcome_of("seed", 1.0))
    archive.fold(steps[1], outcome_of(first.id, 2.0))
    archive.fold(steps[2], None)
    assert [member.candidate_id for member in archive.members(0)] == [first.id, "seed"]
    assert lineage.proposals(first.id) == (steps[1], steps[2])
    assert lineage.ancestors(first.id) == ("seed",)


def test_e13_a_seed_is_one_member_of_each_island_and_no_copy_of_it_migrates() -> None:
    archive = IslandArchive(scenarios=2, islands=3, migrate_every=1)
    archive.fold(seed_step(0, "seed"), outcome_of("seed", 1.0))
    for number in range(1, 10):
        archive.fold(child_step(number, None, number % 3), None)
    assert [[member.candidate_id for member in archive.members(island)] for island in range(3)] == [["seed"]] * 3


@pytest.mark.parametrize("policy", POLICIES)
def test_e14_nothing_that_failed_is_bred_from(policy: str) -> None:
    archive = IslandArchive(scenarios=2, islands=1, reset_after=4)
    archive.fold(seed_step(0, "seed"), outcome_of("seed", 1.0))
    failures = [verdict for verdict in Verdict if verdict is not Verdict.OK]
    for number, verdict in enumerate(failures, start=1):
        archive.fold(child_step(number, f"failed {verdict}", 0), outcome_of(f"failed {verdict}", 9.0, verdict=verdict))
    archive.fold(child_step(99, "right", 0), outcome_of("right", 0.9))
    rng = np.random.default_rng(3)
    chosen = [select(archive, 0, rng, POLICIES[policy]) for _ in range(200)]
    assert {name for one in chosen if one for name in (one.parent_id, *one.inspiration_ids)} == {"seed", "right"}


def test_e17_the_best_keeps_the_step_that_found_it_wherever_it_goes() -> None:
    archive = IslandArchive(scenarios=2, islands=2, migrate_every=2, reset_after=3)
    archive.fold(seed_step(0, "seed"), outcome_of("seed", 1.0))
    archive.fold(child_step(1, "found", 1), outcome_of("found", 2.0))
    for number in range(2, 12):
        archive.fold(child_step(number, f"later {number}", number % 2), outcome_of(f"later {number}", 1.1))
    holders = [member for island in range(2) for member in archive.members(island) if member.candidate_id == "found"]
    assert [(member.number, member.island, member.geomean) for member in holders] == [(1, 1, 2.0)] * 2
    assert archive.best() == archive.best(0) == holders[0]
