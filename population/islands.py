"""The archive of the search: several islands that breed apart and now and then pass on their best."""

from bisect import insort
from collections import Counter
from collections.abc import Sequence

from evaluator.outcome import Outcome
from population.archive import AddStatus, Member, displaced_by, improves, member_of
from population.candidate import Origin, Step


class Island:
    """One bounded population. The best is never evicted."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.members: list[Member] = []
        self.best: Member | None = None
        self.children: Counter[str] = Counter()
        self.stalled_for = 0

    def enter(self, member: Member) -> AddStatus:
        """Take a member in where the rules allow it, making room if need be; NOT_ADDED, ADDED or IMPROVED."""
        if any(present.candidate_id == member.candidate_id for present in self.members):
            return AddStatus.NOT_ADDED
        improved = improves(member, self.best)
        if len(self.members) >= self.capacity:
            leaving = displaced_by(member, self.members, None if improved else self.best)
            if leaving is None:
                return AddStatus.NOT_ADDED
            self.members.remove(leaving)
        insort(self.members, member, key=_rank)
        if improved:
            self.best = member
        return AddStatus.IMPROVED if improved else AddStatus.ADDED

    def count(self, parent_id: str | None, status: AddStatus) -> None:
        """Count an attempt from a parent, and what it came to."""
        if parent_id is not None:
            self.children[parent_id] += 1
        self.stalled_for = 0 if status >= AddStatus.IMPROVED else self.stalled_for + 1

    def start_again(self, members: Sequence[Member]) -> None:
        """Have everybody leave, and these enter; what was tried from whom stays counted."""
        self.members, self.best, self.stalled_for = [], None, 0
        for member in members:
            self.enter(member)


def _rank(member: Member) -> tuple[float, int]:
    return (-member.score, member.number)


class IslandArchive:
    """Islands of at most ``capacity`` members each; step k belongs on island ``island_of(k)``.

    Seeds live on every island by reference. After each ``migrate_every`` steps that aren't seeds, each island's best becomes a
    member of the next island by reference too (0: never). An island that ``reset_after`` attempts in a row didn't improve (0:
    never) starts again from the seeds and the best of all, unless it holds that best itself. Only candidates that are right in
    all ``scenarios`` live here.
    """

    def __init__(
        self, *, scenarios: int, islands: int = 4, capacity: int = 32, migrate_every: int = 40, reset_after: int = 0
    ) -> None:
        if islands < 1 or capacity < 1 or scenarios < 1 or migrate_every < 0 or reset_after < 0:
            raise ValueError("islands, capacity and scenarios are at least 1, migrate_every and reset_after at least 0")
        self._scenarios = scenarios
        self._islands = [Island(capacity) for _ in range(islands)]
        self._migrate_every = migrate_every
        self._reset_after = reset_after
        self._seeds: list[Member] = []
        self._best: Member | None = None
        self._last = -1
        self._attempts = 0

    @property
    def islands(self) -> int:
        """How many islands there are."""
        return len(self._islands)

    def island_of(self, number: int) -> int:
        """The island whose turn it is at a step."""
        return number % len(self._islands)

    def fold(self, step: Step, outcome: Outcome | None) -> AddStatus:
        """Take one step in; see ``population.archive.Archive``."""
        if step.number <= self._last:
            raise ValueError(f"step {step.number} comes after step {self._last} was folded; steps are folded once and in order")
        if not 0 <= step.island < len(self._islands):
            raise ValueError(f"step {step.number} names island {step.island}; there are {len(self._islands)}")
        self._last = step.number
        member = member_of(step, outcome, self._scenarios)
        if step.origin is Origin.SEED:
            return self._settle(member)
        island = self._islands[step.island]
        status = AddStatus.NOT_ADDED if member is None else island.enter(member)
        if step.origin is not Origin.SWEEP:
            island.count(step.parent_id, status)
        status = self._crown(member, status)
        if self._reset_after and island.stalled_for >= self._reset_after and island.best is not self._best:
            island.start_again([*self._seeds, *([self._best] if self._best else [])])
        self._attempts += 1
        if self._migrate_every and self._attempts % self._migrate_every == 0:
            self._migrate()
        return status

    def _settle(self, member: Member | None) -> AddStatus:
        """Take a seed in on every island."""
        if member is None:
            return AddStatus.NOT_ADDED
        self._seeds.append(member)
        return self._crown(member, max(island.enter(member) for island in self._islands))

    def _crown(self, member: Member | None, status: AddStatus) -> AddStatus:
        """BEST where an island's new best is also the best of all, else the status as it was."""
        if member is None or status < AddStatus.IMPROVED or not improves(member, self._best):
            return status
        self._best = member
        return AddStatus.BEST

    def _migrate(self) -> None:
        leaving = [island.best for island in self._islands]
        for place, member in enumerate(leaving):
            if member is not None:
                self._islands[(place + 1) % len(self._islands)].enter(member)

    def members(self, island: int) -> tuple[Member, ...]:
        """Who lives on an island, highest score first, earlier first among equals."""
        return tuple(self._islands[island].members)

    def best(self, island: int | None = None) -> Member | None:
        """The incumbent of an island, or of all; None while nothing is right."""
        return self._best if island is None else self._islands[island].best

    def children(self, island: int, candidate_id: str) -> int:
        """How many steps of this island started from the candidate; turning its knobs doesn't count."""
        return self._islands[island].children[candidate_id]

    def stalled_for(self, island: int) -> int:
        """Attempts on this island since one of them improved it. Neither a migrant nor a turned knob is one."""
        return self._islands[island].stalled_for
