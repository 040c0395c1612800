"""Where candidates came from."""

from population.candidate import Origin, Step
from population.lineage import Figures, Lineage


def step(number: int, candidate_id: str | None, parent_id: str | None = None) -> Step:
    origin = Origin.SEED if parent_id is None else Origin.QUESTION
    return Step(number=number, origin=origin, island=0, parent_id=parent_id, candidate_id=candidate_id)


TREE = [
    step(0, "seed"),
    step(1, "a", "seed"),
    step(2, "b", "a"),
    step(3, None, "a"),  # a rejected answer
    step(4, "a", "b"),  # an ancestor proposed again
    step(5, "c", "b"),
    step(6, "b", "seed"),  # proposed again from elsewhere
    step(7, "orphan", "lost"),
]


def test_lines_follow_the_first_proposal() -> None:
    lineage = Lineage(TREE)
    assert lineage.ancestors("c") == ("b", "a", "seed")
    assert [found.number for found in lineage.line("c")] == [0, 1, 2, 5]
    assert [lineage.depth(name) for name in ("seed", "a", "b", "c", "orphan")] == [0, 1, 2, 3, 0]
    assert lineage.ancestors("seed") == ()


def test_failures_and_repeats_stay_as_edges() -> None:
    lineage = Lineage(TREE)
    assert [found.number for found in lineage.children("a")] == [2, 3]
    assert [found.number for found in lineage.proposals("b")] == [2, 6]
    assert [found.number for found in lineage.children("seed")] == [1, 6]


def test_descendants_come_once_each() -> None:
    lineage = Lineage(TREE)
    assert list(lineage.descendants("seed")) == ["a", "b", "c"]
    assert list(lineage.descendants("c")) == []


def test_unknown_names() -> None:
    lineage = Lineage(TREE)
    assert lineage.first("nobody") is None
    assert lineage.line("nobody") == ()
    assert lineage.children("nobody") == ()
    assert lineage.ancestors("orphan") == ()


def test_figures() -> None:
    expected = Figures(steps=8, candidates=5, childless=1, repeated=2, roots=2, leaves=2, depth=3)
    assert Lineage(TREE).figures() == expected
    assert Lineage().figures() == Figures(steps=0, candidates=0, childless=0, repeated=0, roots=0, leaves=0, depth=0)


def test_a_step_that_proposes_its_own_parent_ends_the_line() -> None:
    lineage = Lineage([step(0, "a", "a"), step(1, "b", "a")])
    assert lineage.ancestors("b") == ("a",)


def test_a_long_line() -> None:
    steps = [step(0, "n0"), *(step(number, f"n{number}", f"n{number - 1}") for number in range(1, 100_000))]
    lineage = Lineage(steps)
    assert len(lineage.ancestors("n99999")) == 99_999
    assert sum(1 for _ in lineage.descendants("n0")) == 99_999
