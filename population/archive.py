"""Who may live in the archive, and the rules by which one candidate displaces another."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol

from evaluator.outcome import Outcome, Verdict
from population.candidate import Origin, Step


class AddStatus(IntEnum):
    """What a fold did. Ordered, and false only where the candidate didn't enter."""

    NOT_ADDED = 0
    ADDED = 1
    """Entered its island for the sake of diversity."""
    IMPROVED = 2
    """Became the best of its island."""
    BEST = 3
    """Became the best of its island and of the whole archive."""

    @property
    def word(self) -> str:
        """The name as events hold it: ``not_added``, ``added``, ``improved`` or ``best``."""
        return self.name.lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A candidate in the archive, by reference.

    ``score`` is the lower bound of the geometric mean's interval and ``geomean`` its median; ``ratios`` holds the median ratio
    to the baseline by scenario. ``number`` is the step that brought it, ``island`` its home (None: a seed, at home everywhere).
    """

    candidate_id: str
    score: float
    geomean: float
    number: int
    island: int | None = None
    noise_floor_pct: float = 0.0
    ratios: Mapping[str, float] = field(default_factory=dict)


class Archive(Protocol):
    """Keeps who may breed. A pure fold: the same steps and outcomes in the same order give the same archive.

    The loop folds every step once, in the order of asking, whatever finished first: with its outcome, or None where the answer
    was rejected or the source known. Selection reads members between folds. After a restart the archive is rebuilt by folding
    the stored steps again. ``tests/contracts/archive.py`` holds the contract test.
    """

    @property
    def islands(self) -> int:
        """How many islands there are, at least 1."""

    def fold(self, step: Step, outcome: Outcome | None) -> AddStatus:
        """Take one step in. Raises ValueError for a step out of order or on an island that isn't there."""

    def members(self, island: int) -> Sequence[Member]:
        """Who lives on an island, highest score first, earlier first among equals."""

    def best(self, island: int | None = None) -> Member | None:
        """The incumbent of an island, or of all; None while nothing is right."""

    def children(self, island: int, candidate_id: str) -> int:
        """How many steps of this island started from the candidate; turning its knobs (``Origin.SWEEP``) doesn't count."""

    def stalled_for(self, island: int) -> int:
        """Attempts on this island since one of them improved it; turning knobs isn't one."""


def member_of(step: Step, outcome: Outcome | None, scenarios: int) -> Member | None:
    """The member that an outcome makes, None unless it is right, scored over all ``scenarios`` and finite throughout.

    AMBIGUOUS replaces nothing, so it makes no member, unless it is a seed: a noisy host must not end a search before it begins.
    """
    if outcome is None or outcome.fitness is None:
        return None
    if outcome.verdict is not Verdict.OK and not (outcome.verdict is Verdict.AMBIGUOUS and step.origin is Origin.SEED):
        return None
    fitness = outcome.fitness
    ratios = {timing.scenario: timing.ratio for timing in outcome.timings if timing.opponent == fitness.opponent}
    figures = (fitness.low, fitness.geomean, fitness.high, *ratios.values())
    if fitness.scenarios != scenarios or not all(math.isfinite(figure) and figure > 0 for figure in figures):
        return None
    if not fitness.low <= fitness.geomean <= fitness.high:
        return None
    return Member(
        candidate_id=outcome.candidate_id,
        score=fitness.low,
        geomean=fitness.geomean,
        number=step.number,
        island=None if step.parent_id is None else step.island,
        noise_floor_pct=outcome.noise_floor_pct or 0.0,
        ratios=ratios,
    )


def improves(challenger: Member, incumbent: Member | None) -> bool:
    """Whether the challenger takes the incumbent's place as best.

    Its lower bound must lie above the incumbent's median, and its median above that by more than the noise floor of its session:
    the half-width of baseline against itself in one scenario, divided by the root of the number of scenarios, since that is how
    the error of a geometric mean shrinks. So a tie, or a gain that noise could have made, replaces nothing.
    """
    if incumbent is None:
        return True
    floor = 1 + challenger.noise_floor_pct / 100 / math.sqrt(max(1, len(challenger.ratios)))
    return challenger.score > incumbent.geomean and challenger.geomean > incumbent.geomean * floor


def distance(one: Member, other: Member) -> float:
    """Root mean square of the differences of log ratios over the scenarios both were timed in; 0 where there are none."""
    common = one.ratios.keys() & other.ratios.keys()
    squares = [math.log(one.ratios[name] / other.ratios[name]) ** 2 for name in sorted(common)]
    return math.sqrt(sum(squares) / len(squares)) if squares else 0.0


def displaced_by(challenger: Member, members: Sequence[Member], incumbent: Member | None) -> Member | None:
    """Who leaves a full island for the challenger: the most alike of those with a lower score, never the incumbent.

    Crowding by likeness keeps kernels that are good at different scenarios, where dropping the worst would leave copies of the
    best. Of equally alike ones the lowest score leaves, then the youngest. None: nobody does, the challenger stays out.
    """
    worse = [member for member in members if member.score < challenger.score and member is not incumbent]
    return min(worse, key=lambda member: (distance(challenger, member), member.score, -member.number), default=None)
