"""Where candidates came from: every step is an edge, failures and repeated proposals included."""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from population.candidate import Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Counts over a lineage.

    ``childless`` steps made no candidate (a rejected answer); ``repeated`` ones proposed a known candidate. ``roots`` have no
    known parent. ``depth`` is the longest chain of first proposals, in edges. ``leaves`` were never a parent.
    """

    steps: int
    candidates: int
    childless: int
    repeated: int
    roots: int
    leaves: int
    depth: int


class Lineage:
    """The graph of a run's steps, grown in the order of asking. Nothing is ever taken out.

    A candidate's *line* follows the step that first proposed it; later proposals of the same source are edges beside it, so a
    line has no cycle. A parent that was never proposed (a store that lost it, say) simply begins the line.
    """

    def __init__(self, steps: Iterable[Step] = ()) -> None:
        self._first: dict[str, Step] = {}
        self._depth: dict[str, int] = {}
        self._proposals: defaultdict[str, list[Step]] = defaultdict(list)
        self._children: defaultdict[str, list[Step]] = defaultdict(list)
        self._steps = 0
        self._childless = 0
        for step in steps:
            self.add(step)

    def add(self, step: Step) -> None:
        """Take in one more step."""
        self._steps += 1
        if step.parent_id is not None:
            self._children[step.parent_id].append(step)
        if step.candidate_id is None:
            self._childless += 1
            return
        self._proposals[step.candidate_id].append(step)
        if step.candidate_id not in self._first:
            self._first[step.candidate_id] = step
            self._depth[step.candidate_id] = self._depth.get(step.parent_id, -1) + 1 if step.parent_id is not None else 0

    def first(self, candidate_id: str) -> Step | None:
        """The step that first proposed a candidate, None if none did."""
        return self._first.get(candidate_id)

    def proposals(self, candidate_id: str) -> tuple[Step, ...]:
        """Every step that proposed a candidate, the first one first."""
        return tuple(self._proposals.get(candidate_id, ()))

    def children(self, candidate_id: str) -> tuple[Step, ...]:
        """Every step that started from a candidate, in the order of asking."""
        return tuple(self._children.get(candidate_id, ()))

    def line(self, candidate_id: str) -> tuple[Step, ...]:
        """The steps from the seed to a candidate, both included; empty where it was never proposed."""
        found = []
        step = self._first.get(candidate_id)
        while step is not None:
            found.append(step)
            step = self._before(step)
        return tuple(reversed(found))

    def ancestors(self, candidate_id: str) -> tuple[str, ...]:
        """Parent, grandparent and so on to the seed."""
        return tuple(step.candidate_id for step in reversed(self.line(candidate_id)[:-1]) if step.candidate_id is not None)

    def descendants(self, candidate_id: str) -> Iterator[str]:
        """Candidates whose line passes through this one, nearest first."""
        waiting = deque([candidate_id])
        while waiting:
            for step in self._children.get(waiting.popleft(), ()):
                if step.candidate_id is not None and self._first[step.candidate_id] is step:
                    yield step.candidate_id
                    waiting.append(step.candidate_id)

    def depth(self, candidate_id: str) -> int:
        """Edges from the beginning of its line to a candidate. Raises KeyError where it was never proposed."""
        return self._depth[candidate_id]

    def figures(self) -> Figures:
        """Counts over the whole lineage."""
        return Figures(
            steps=self._steps,
            candidates=len(self._first),
            childless=self._childless,
            repeated=self._steps - self._childless - len(self._first),
            roots=sum(self._before(step) is None for step in self._first.values()),
            leaves=sum(candidate_id not in self._children for candidate_id in self._first),
            depth=max(self._depth.values(), default=0),
        )

    def _before(self, step: Step) -> Step | None:
        """The step that first proposed the step's parent, if that came earlier."""
        before = self._first.get(step.parent_id) if step.parent_id is not None else None
        return before if before is not None and before.number < step.number else None
