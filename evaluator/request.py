"""What an evaluation is asked to do, and who can do it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from evaluator.outcome import Effort, Outcome
from population.candidate import Candidate


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One evaluation.

    ``incumbent_low`` is the lower bound of the best fitness so far: a candidate that is hopeless against it may end as SLOWER.
    ``rivals`` are further opponents for finals (the seeds). ``thorough``: checked under all distributions, as in a final, since a
    candidate beside it or before it was caught cheating. ``attempt`` counts repetitions after infrastructure faults.
    """

    candidate: Candidate
    effort: Effort = Effort.SEARCH
    incumbent_low: float | None = None
    rivals: Sequence[Candidate] = ()
    thorough: bool = False
    attempt: int = 0


class Evaluator(Protocol):
    """Turns a request into an outcome. Never raises for anything that a candidate does."""

    def evaluate(self, request: Request) -> Outcome:
        """Run the cascade; harness faults come back as HARNESS_FAULT."""

    def close(self) -> None:
        """Stop every process that the evaluator keeps."""
