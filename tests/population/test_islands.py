"""The island archive: the contract, and what islands add to it."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from population.archive import AddStatus, Archive
from population.islands import IslandArchive
from tests.contracts.archive import ArchiveContract, child_step, outcome_of, seed_step


class TestIslandArchive(ArchiveContract):
    @pytest.fixture(scope="class", params=[(1, 1, 0, 0), (3, 4, 2, 3), (2, 32, 5, 0), (2, 2, 0, 1)], ids=str)
    @classmethod
    def make_archive(cls, request: pytest.FixtureRequest) -> Callable[[], Archive]:
        islands, capacity, migrate_every, reset_after = request.param
        return lambda: IslandArchive(
            scenarios=2, islands=islands, capacity=capacity, migrate_every=migrate_every, reset_after=reset_after
        )


def archive_of(islands: int = 3, capacity: int = 8, migrate_every: int = 0, reset_after: int = 0) -> IslandArchive:
    archive = IslandArchive(scenarios=2, islands=islands, capacity=capacity, migrate_every=migrate_every, reset_after=reset_after)
    archive.fold(seed_step(0, "seed"), outcome_of("seed", 1.0))
    return archive


def ids(archive: IslandArchive, island: int) -> list[str]:
    return [member.candidate_id for member in archive.members(island)]


def test_e09_children_spread_over_the_islands() -> None:
    archive = archive_of(capacity=99)
    for number in range(1, 31):
        archive.fold(child_step(number, f"c{number}", archive.island_of(number)), outcome_of(f"c{number}", 0.9))
    assert [len(archive.members(island)) - 1 for island in range(3)] == [10, 10, 10]
    assert [archive.children(island, "seed") for island in range(3)] == [10, 10, 10]


def test_e10_islands_share_only_seeds_and_migrants() -> None:
    archive = archive_of(migrate_every=4)
    for number in range(1, 4):
        archive.fold(child_step(number, f"c{number}", number % 3), outcome_of(f"c{number}", 1.0 + number / 10))
    assert [ids(archive, island) for island in range(3)] == [["c3", "seed"], ["c1", "seed"], ["c2", "seed"]]
    archive.fold(child_step(4, None, 1), None)
    assert [ids(archive, island) for island in range(3)] == [["c3", "c2", "seed"], ["c3", "c1", "seed"], ["c2", "c1", "seed"]]
    assert [member.island for member in archive.members(1)] == [0, 1, None]
    assert archive.best(1) == archive.best()


def test_seeds_are_everywhere_and_count_as_no_attempt() -> None:
    archive = archive_of()
    archive.fold(seed_step(1, "other"), outcome_of("other", 0.4))
    assert all(ids(archive, island) == ["seed", "other"] for island in range(3))
    assert [archive.stalled_for(island) for island in range(3)] == [0, 0, 0]


def test_a_known_candidate_does_not_enter_twice() -> None:
    archive = archive_of()
    assert archive.fold(child_step(1, "c", 0), outcome_of("c", 0.9)) is AddStatus.ADDED
    assert archive.fold(child_step(2, "c", 0), outcome_of("c", 2.0)) is AddStatus.NOT_ADDED
    assert ids(archive, 0) == ["seed", "c"]


def test_status_says_what_happened() -> None:
    archive = archive_of()
    assert archive.fold(child_step(1, "a", 1), outcome_of("a", 2.0)) is AddStatus.BEST
    assert archive.fold(child_step(2, "b", 2), outcome_of("b", 1.5)) is AddStatus.IMPROVED
    assert archive.fold(child_step(3, "c", 1), outcome_of("c", 1.5)) is AddStatus.ADDED
    assert archive.fold(child_step(4, None, 1), None) is AddStatus.NOT_ADDED
    assert [status.word for status in sorted(AddStatus)] == ["not_added", "added", "improved", "best"]


def test_a_gain_within_the_interval_or_the_noise_replaces_nothing() -> None:
    archive = archive_of()
    overlapping = outcome_of("a", 1.002, width=0.01)
    assert archive.fold(child_step(1, "a", 0), overlapping) is AddStatus.ADDED
    noisy = outcome_of("b", 1.02, width=0.001, noise_floor_pct=3.0)
    assert archive.fold(child_step(2, "b", 0), noisy) is AddStatus.ADDED
    clear = outcome_of("c", 1.02, width=0.001, noise_floor_pct=1.0)
    assert archive.fold(child_step(3, "c", 0), clear) is AddStatus.BEST


def test_stagnation_is_counted_per_island() -> None:
    archive = archive_of()
    for number in range(1, 7):
        archive.fold(child_step(number, None, number % 2), None)
    assert [archive.stalled_for(island) for island in range(3)] == [3, 3, 0]
    archive.fold(child_step(7, "a", 1), outcome_of("a", 3.0))
    archive.fold(child_step(8, "b", 0), outcome_of("b", 0.5))
    assert [archive.stalled_for(island) for island in range(3)] == [4, 0, 0]


def test_a_full_island_drops_the_most_alike_of_the_worse() -> None:
    archive = archive_of(islands=1, capacity=3)
    archive.fold(child_step(1, "short", 0), outcome_of("short", 0.7, tilt=4.0))
    archive.fold(child_step(2, "long", 0), outcome_of("long", 0.6, tilt=0.25))
    assert archive.fold(child_step(3, "better short", 0), outcome_of("better short", 0.8, tilt=4.0)) is AddStatus.ADDED
    assert ids(archive, 0) == ["seed", "better short", "long"]
    assert archive.fold(child_step(4, "worst", 0), outcome_of("worst", 0.1)) is AddStatus.NOT_ADDED


def test_an_island_that_stalls_starts_again_from_the_seeds_and_the_best_of_all() -> None:
    archive = archive_of(islands=2, reset_after=3)
    archive.fold(child_step(1, "best", 0), outcome_of("best", 3.0))
    archive.fold(child_step(2, "own", 1), outcome_of("own", 2.0))
    archive.fold(child_step(3, "other", 1, parent_id="own"), outcome_of("other", 1.5))
    archive.fold(child_step(4, "beside", 0), outcome_of("beside", 0.5))
    archive.fold(child_step(5, None, 1), None)
    assert ids(archive, 1) == ["own", "other", "seed"]
    archive.fold(child_step(7, None, 1), None)
    assert ids(archive, 1) == ["best", "seed"]
    assert archive.stalled_for(1) == 0
    assert archive.children(1, "own") == 1
    assert archive.best() == archive.best(1)
    for number in (8, 10, 12):
        archive.fold(child_step(number, None, 0), None)
    assert archive.stalled_for(0) == 4
    assert ids(archive, 0) == ["best", "seed", "beside"]


@given(capacity=st.integers(1, 4), scores=st.lists(st.floats(0.1, 10.0), max_size=40), reset_after=st.integers(0, 4))
def test_e12_the_best_survives_any_capacity(capacity: int, scores: list[float], reset_after: int) -> None:
    archive = archive_of(islands=2, capacity=capacity, migrate_every=3, reset_after=reset_after)
    for number, score in enumerate(scores, start=1):
        archive.fold(child_step(number, f"c{number}", number % 2), outcome_of(f"c{number}", score))
        assert all(len(archive.members(island)) <= capacity for island in range(2))
        assert any(archive.best() in archive.members(island) for island in range(2))


@pytest.mark.parametrize("wrong", [{"islands": 0}, {"capacity": 0}, {"scenarios": 0}, {"migrate_every": -1}, {"reset_after": -1}])
def test_sizes_are_checked(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="at least"):
        IslandArchive(**{"scenarios": 2, **wrong})
