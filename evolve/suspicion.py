"""Which lineages a cheat makes suspect, and what that asks of them. Nobody is punished: a suspect is examined in full, once."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from evaluator.outcome import Outcome
from population.candidate import Step


@dataclass(slots=True)
class Suspicion:
    """A projection of a run's steps and outcomes.

    A step after whose outcome a candidate counts as caught (``Fault.cheats``) makes its parent watched: later children of that
    parent are examined in full. The parent itself stays as it is, since it was right. Where a final catches a candidate that had
    passed a search, those that come from it are shut out too, until one of them is proposed again and passes in full. Whoever
    passed in full is clear, and so are its children.
    """

    watched: set[str] = field(default_factory=set)
    """Parents with a child that was caught."""
    shut_out: set[str] = field(default_factory=set)
    """Candidates that come from a caught one and weren't examined in full."""
    _condemned: set[str] = field(default_factory=set)
    _in_full: set[str] = field(default_factory=set)

    @property
    def suspects(self) -> frozenset[str]:
        """Candidates that are examined in full when they are proposed, as are their children."""
        return frozenset(self.watched | self._condemned | self.shut_out)

    def take_in(self, step: Step, outcome: Outcome, *, in_full: bool) -> None:
        """Take in the outcome of a step, in the order of asking; ``in_full``: the step's candidate was examined in full."""
        if in_full:
            self._in_full.add(outcome.candidate_id)
        if outcome.fault is not None and outcome.fault.cheats and step.parent_id is not None:
            self.watched.add(step.parent_id)
        self._judge(step)
        if outcome.fault is None and outcome.candidate_id in self._in_full:
            self.shut_out.discard(outcome.candidate_id)

    def verified(self, candidate_id: str) -> None:
        """A final found a candidate right."""
        self._in_full.add(candidate_id)
        self.shut_out.discard(candidate_id)

    def caught(self, candidate_id: str, steps: Sequence[Step]) -> None:
        """A final caught a candidate; ``steps`` are those folded so far, in order."""
        self._condemned.add(candidate_id)
        self.watched |= {step.parent_id for step in steps if step.candidate_id == candidate_id and step.parent_id is not None}
        for step in steps:
            self._judge(step)

    def _judge(self, step: Step) -> None:
        """Shut out a candidate that comes from a suspect and wasn't examined in full."""
        candidate_id = step.candidate_id
        if candidate_id is not None and step.parent_id in self._condemned | self.shut_out and candidate_id not in self._in_full:
            self.shut_out.add(candidate_id)
