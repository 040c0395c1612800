"""Who breeds next: a parent and, beside it, members to look at, all from one island."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from population.archive import Archive

Weights = npt.NDArray[np.float64]
POWER = 1.0
"""Weight of rank r (0 is the best) is (r + 1) ** -POWER."""
EXPLORE_SHARE = 0.2
"""Share of steps that take any member with equal chance."""
INSPIRATIONS = 2
"""How many other members are shown with the parent, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Ids of the parent and of the inspirations, the parent not among them."""

    parent_id: str
    inspiration_ids: tuple[str, ...]


def select(archive: Archive, island: int, rng: np.random.Generator) -> Selection | None:
    """A parent and up to two inspirations from an island, None while nobody lives there.

    The parent is drawn by rank with a power law, divided by 1 + its children on this island, so that a leader which was tried
    often makes room; one step in five draws evenly. Inspirations are drawn by rank alone. The same archive and generator state
    give the same choice.
    """
    members = archive.members(island)
    if not members:
        return None
    ids = [member.candidate_id for member in members]
    by_rank = np.arange(1, len(ids) + 1, dtype=np.float64) ** -POWER
    if rng.random() < EXPLORE_SHARE:
        parent = int(rng.integers(len(ids)))
    else:
        tried = np.array([archive.children(island, candidate_id) for candidate_id in ids])
        parent = int(rng.choice(len(ids), p=_shares(by_rank / (1 + tried))))
    by_rank[parent] = 0.0
    count = min(INSPIRATIONS, len(ids) - 1)
    shown = rng.choice(len(ids), size=count, replace=False, p=_shares(by_rank)) if count else ()
    return Selection(parent_id=ids[parent], inspiration_ids=tuple(ids[int(place)] for place in shown))


def _shares(weights: Weights) -> Weights:
    shares: Weights = weights / weights.sum()
    return shares
