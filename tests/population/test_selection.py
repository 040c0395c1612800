"""Who breeds next."""

from collections import Counter
from typing import get_args

import numpy as np
import pytest

from evolve.config import PopulationTable
from population.islands import IslandArchive
from population.selection import POLICIES, Selection, by_rank, select
from tests.contracts.archive import child_step, outcome_of, seed_step


def filled(members: int, islands: int = 2) -> IslandArchive:
    archive = IslandArchive(scenarios=2, islands=islands, migrate_every=0)
    archive.fold(seed_step(0, "seed"), outcome_of("seed", 1.0))
    for number in range(1, members * islands + 1):
        step = child_step(number, f"{number % islands}-{number}", number % islands, parent_id="elsewhere")
        archive.fold(step, outcome_of(f"{number % islands}-{number}", 1.0 + number / 10))
    return archive


def picks(archive: IslandArchive, count: int = 2000) -> Counter[str]:
    rng = np.random.default_rng(5)
    chosen = (select(archive, 0, rng) for _ in range(count))
    return Counter(selection.parent_id for selection in chosen if selection is not None)


def test_nobody_to_choose() -> None:
    assert select(IslandArchive(scenarios=2), 0, np.random.default_rng(0)) is None


def test_one_member_has_no_inspirations() -> None:
    assert select(filled(0), 0, np.random.default_rng(0)) == Selection(parent_id="seed", inspiration_ids=())


def test_the_same_state_gives_the_same_choice() -> None:
    archive = filled(8)
    assert [select(archive, 0, np.random.default_rng(n)) for n in range(50)] == [
        select(archive, 0, np.random.default_rng(n)) for n in range(50)
    ]


def test_e10_all_come_from_one_island_and_differ() -> None:
    archive = filled(8)
    rng = np.random.default_rng(1)
    for _ in range(300):
        selection = select(archive, 1, rng)
        assert selection is not None
        chosen = [selection.parent_id, *selection.inspiration_ids]
        assert len(set(chosen)) == 3
        assert all(name == "seed" or name.startswith("1-") for name in chosen)


def test_better_ranks_are_chosen_more_often_and_all_are_chosen() -> None:
    archive = filled(5)
    counts = picks(archive)
    ranked = [counts[member.candidate_id] for member in archive.members(0)]
    assert ranked == sorted(ranked, reverse=True)
    assert min(ranked) > 0


def test_many_children_make_room() -> None:
    archive = filled(5)
    leader = archive.members(0)[0].candidate_id
    before = picks(archive)[leader]
    for number in range(100, 109):
        archive.fold(child_step(number, None, 0, parent_id=leader), None)
    assert picks(archive)[leader] < before / 2


def parents(policy: str, archive: IslandArchive, count: int = 2000) -> list[int]:
    """Which rank each of many parents had."""
    rng = np.random.default_rng(5)
    ids = [member.candidate_id for member in archive.members(0)]
    chosen = (select(archive, 0, rng, POLICIES[policy]) for _ in range(count))
    return [ids.index(selection.parent_id) for selection in chosen if selection is not None]


def test_a_configuration_names_every_policy() -> None:
    assert get_args(PopulationTable.model_fields["selection"].annotation) == tuple(POLICIES)
    assert POLICIES[PopulationTable(seeds=("seed",)).selection] is by_rank


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_copes_with_one_member_and_repeats_itself(policy: str) -> None:
    assert parents(policy, filled(0), 5) == [0] * 5
    assert parents(policy, filled(8), 50) == parents(policy, filled(8), 50)


def test_what_the_policies_prefer() -> None:
    archive = filled(5)
    shares = {policy: np.bincount(parents(policy, archive), minlength=6) / 2000 for policy in POLICIES}
    assert shares["best"][0] == 1
    assert shares["even"] == pytest.approx([1 / 6] * 6, abs=0.04)
    assert shares["tournament"] == pytest.approx([(1 - r / 6) ** 3 - (1 - (r + 1) / 6) ** 3 for r in range(6)], abs=0.04)


def test_a_beam_takes_turns_among_the_best() -> None:
    archive = filled(6)
    chosen = []
    for number in range(100, 108):
        selection = select(archive, 0, np.random.default_rng(number), POLICIES["beam"])
        assert selection is not None
        chosen.append(selection.parent_id)
        archive.fold(child_step(number, None, 0, parent_id=selection.parent_id), None)
    best = [member.candidate_id for member in archive.members(0)][:4]
    assert chosen == best * 2
