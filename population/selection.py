"""Who breeds next: a parent and, beside it, members to look at, all from one island."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from population.archive import Archive, Member

Weights = npt.NDArray[np.float64]
POWER = 1.0
"""Weight of rank r (0 is the best) is (r + 1) ** -POWER."""
EXPLORE_SHARE = 0.2
"""Share of steps of ``rank`` that take any member with equal chance."""
CONTESTANTS = 3
"""How many members a tournament draws."""
BEAM = 4
"""How many of the best take turns in a beam."""
INSPIRATIONS = 2
"""How many other members are shown with the parent, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Ids of the parent and of the inspirations, the parent not among them."""

    parent_id: str
    inspiration_ids: tuple[str, ...]


class Policy(Protocol):
    """Chooses a parent. It remembers nothing: the same members, counts and generator state give the same choice."""

    def __call__(self, members: Sequence[Member], tried: Sequence[int], rng: np.random.Generator) -> int:
        """The place of the parent among ``members``, which are at least one, best first; ``tried``: how many steps each had."""


def by_rank(members: Sequence[Member], tried: Sequence[int], rng: np.random.Generator) -> int:
    """By rank with a power law, divided by 1 + its children, so that a leader which was tried often makes room; one step in five
    draws evenly.
    """
    if rng.random() < EXPLORE_SHARE:
        return int(rng.integers(len(members)))
    return int(rng.choice(len(members), p=_shares(_rank_weights(len(members)) / (1 + np.array(tried)))))


def best_first(members: Sequence[Member], tried: Sequence[int], rng: np.random.Generator) -> int:
    """Always the best: hill climbing."""
    return 0


def evenly(members: Sequence[Member], tried: Sequence[int], rng: np.random.Generator) -> int:
    """Any member, each with the same chance."""
    return int(rng.integers(len(members)))


def by_tournament(members: Sequence[Member], tried: Sequence[int], rng: np.random.Generator) -> int:
    """The best of three that are drawn evenly, the same one perhaps twice."""
    return int(rng.integers(len(members), size=CONTESTANTS).min())


def by_beam(members: Sequence[Member], tried: Sequence[int], rng: np.random.Generator) -> int:
    """Of the four best the one that was tried least, the better of equals."""
    return min(range(min(BEAM, len(members))), key=lambda place: (tried[place], place))


POLICIES: Mapping[str, Policy] = {
    "rank": by_rank,
    "best": best_first,
    "even": evenly,
    "tournament": by_tournament,
    "beam": by_beam,
}
"""The policies by the names that a configuration gives them."""


def select(archive: Archive, island: int, rng: np.random.Generator, policy: Policy = by_rank) -> Selection | None:
    """A parent, chosen by the policy, and up to two inspirations from an island, None while nobody lives there.

    Inspirations are drawn by rank with a power law. The same archive and generator state give the same choice.
    """
    members = archive.members(island)
    if not members:
        return None
    ids = [member.candidate_id for member in members]
    parent = policy(members, [archive.children(island, candidate_id) for candidate_id in ids], rng)
    weights = _rank_weights(len(ids))
    weights[parent] = 0.0
    count = min(INSPIRATIONS, len(ids) - 1)
    shown = rng.choice(len(ids), size=count, replace=False, p=_shares(weights)) if count else ()
    return Selection(parent_id=ids[parent], inspiration_ids=tuple(ids[int(place)] for place in shown))


def _rank_weights(count: int) -> Weights:
    weights: Weights = np.arange(1, count + 1, dtype=np.float64) ** -POWER
    return weights


def _shares(weights: Weights) -> Weights:
    shares: Weights = weights / weights.sum()
    return shares
