"""Finals: fresh seeds, the full grid, hidden shapes, a new race against the seeds. Only a final's number is published."""

from collections import Counter
from collections.abc import Callable

from evaluator.outcome import Effort, Outcome, Verdict
from evaluator.request import Request
from evolve.goal import Goal, examine, is_met
from evolve.journal import Journal
from evolve.state import SAYS_NOTHING, State
from evolve.verified import comparable_finals
from results.events import FinalMeasured

AT_MOST = 3
"""Finals at the end of a run, best candidate first, until one is verified."""

TRIES = 2
"""Finals that one candidate gets before the next best has its turn."""


class Finals:
    """Decides which candidate gets a final, and when. ``measure`` carries one out; None where it isn't to be had now."""

    def __init__(
        self, *, state: State, journal: Journal, measure: Callable[[Request], Outcome | None], goal: Goal | None
    ) -> None:
        self._state = state
        self._journal = journal
        self._measure = measure
        self._goal = goal
        self._tries: Counter[str] = Counter()

    def reach_goal(self) -> bool:
        """Whether a final meets the goal. The best gets one, if it had none, as soon as its own outcome seems to."""
        best = self._state.best
        if self._goal is None:
            return False
        if best is not None and best.candidate_id not in self._state.finals and self._seems_met(best.candidate_id):
            self._final(best.candidate_id)
        return self._met_by_some()

    def verify_best(self) -> bool:
        """Give the best a final, and where that doesn't verify it the next best, a few times; whether a final meets the goal."""
        for _ in range(AT_MOST):
            candidate_id = self._next()
            outcome = self._final(candidate_id) if candidate_id else None
            if outcome is None or outcome.verdict is Verdict.OK:
                break
        return self._met_by_some()

    def _next(self) -> str | None:
        """The best candidate that no final has settled, None where a better one is verified.

        A final that says nothing is repeated once; then the next best has its turn.
        """
        for member in self._state.ranking():
            final = self._state.finals.get(member.candidate_id)
            if final is None or (final.verdict in SAYS_NOTHING and self._tries[member.candidate_id] < TRIES):
                return member.candidate_id
            if final.verdict is Verdict.OK:
                return None
        return None

    def _final(self, candidate_id: str) -> Outcome | None:
        self._tries[candidate_id] += 1
        request = Request(candidate=self._state.candidate(candidate_id), effort=Effort.FINAL, rivals=self._state.right_seeds)
        outcome = self._measure(request)
        if outcome is not None:
            self._journal.write(FinalMeasured(outcome=outcome))
        return outcome

    def _seems_met(self, candidate_id: str) -> bool:
        """Whether the conditions that a search measures hold, and there is at least one."""
        if self._goal is None:
            return False
        results = examine(self._goal, self._state.outcomes[candidate_id], self._state.card)
        measured = [result for result in results if result.value is not None or result.condition.statistic == "correct"]
        return any(result.value is not None for result in measured) and all(result.met for result in measured)

    def _met_by_some(self) -> bool:
        goal, card = self._goal, self._state.card
        return goal is not None and any(is_met(goal, final, card) for final in comparable_finals(self._state))
