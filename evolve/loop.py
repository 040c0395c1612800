"""The search: pick a parent, see what was measured about it, ask a question, have the answer evaluated, keep what is better.

Results are folded in the order of asking. Proposal k sees exactly the results of proposals up to k - lookahead, whatever finished
first and however many workers there are; its random streams depend on the run's seed and k alone. So the events decide
everything, and a driver that was killed goes on by replaying them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from evaluator.outcome import Outcome, Verdict
from evaluator.request import Request
from evolve.budget import Budget
from evolve.errors import AnswererFailed, EnvironmentUnfit
from evolve.executors.base import Executor
from evolve.finals import Finals
from evolve.goal import Goal
from evolve.journal import Journal
from evolve.proposal import Mutation, plant, propose
from evolve.state import State
from evolve.stopping import GOES_ON, StopReason, StopRequest
from population.candidate import Candidate, short_id
from results.events import RunNoted, RunStopped, StepEvaluated

POLL_S = 0.5
FAULTS_IN_A_ROW = 3
"""So many evaluations in a row that ended in faults of the harness stop the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What of the configuration the loop goes by."""

    seed: int
    lookahead: int
    workers: int
    exhausted_after: int
    budget: Budget
    goal: Goal | None


class Search:
    """One driver's part of a run, from its start or from where an earlier driver stopped.

    A driver that doesn't evaluate (``evaluates`` False) asks and folds as far as what is known reaches, and leaves the rest open.
    """

    def __init__(
        self,
        *,
        state: State,
        journal: Journal,
        executor: Executor,
        mutation: Mutation,
        terms: Terms,
        stop: StopRequest,
        evaluates: bool = True,
    ) -> None:
        self._state = state
        self._journal = journal
        self._executor = executor
        self._mutation = mutation
        self._terms = terms
        self._stop = stop
        self._evaluates = evaluates
        self._refused = False
        """Whether a final was called for here though this driver doesn't evaluate."""
        self._finals = Finals(state=state, journal=journal, measure=self._measure, goal=terms.goal)
        self._measured: dict[int, Outcome] = {}

    def run(self, seeds: Sequence[Candidate]) -> StopReason:
        """Search until there is a reason to stop. ``seeds`` are planted where the run has no step yet, and those that only the
        harness failed once more before the first question.
        """
        if self._state.next_number == 0:
            self._journal.write(*plant(self._state, seeds))
        elif self._state.next_number == self._state.folded == len(self._state.seed_steps):
            self._journal.write(*plant(self._state, self._state.faulted_seeds))
        for number, request in self._state.waiting.items():
            self._executor.submit(number, request)
        try:
            while (reason := self._step()) is None:
                pass
            reason = self._wind_up(reason)
        except EnvironmentUnfit as unfit:  # what is open stays open, and nobody is blamed
            self._journal.write(RunNoted(text=str(unfit)))
            reason = StopReason.ENVIRONMENT
        self._journal.close(RunStopped(reason=reason))
        return reason

    def _step(self) -> StopReason | None:
        """Ask one question and hand its answer over for evaluation; or the reason to stop."""
        number = self._state.next_number
        if not self._see(max(number - self._terms.lookahead, len(self._state.seed_steps) - 1)):
            return self._interrupted
        if self._finals.reach_goal():
            return StopReason.GOAL
        if self._refused:
            return StopReason.EVALUATION
        if (reason := self._limit()) is not None:
            return reason
        if self._state.best is None:
            return self._no_parent()
        try:
            proposal = propose(self._state, self._mutation, self._terms.seed)
        except AnswererFailed as error:
            self._journal.write(RunNoted(text=str(error)))
            return StopReason.ANSWERER
        if proposal is None:
            return StopReason.WAITING
        self._journal.write(proposal)
        if number in self._state.waiting:
            self._executor.submit(number, self._state.waiting[number])
        return None

    def _see(self, last: int) -> bool:
        """Fold every step up to ``last``, waiting for its result; False where that is interrupted."""
        while not self._stop and self._state.folded <= last:
            if self._state.can_fold:
                self._journal.fold()
            elif self._evaluates:
                self._collect()
            else:
                return False
        return not self._stop

    @property
    def _interrupted(self) -> StopReason:
        """Why this driver doesn't see a result that the run needs."""
        return StopReason.REQUESTED if self._stop else StopReason.EVALUATION

    def _collect(self) -> None:
        """Store what has been evaluated since the last call, waiting a moment for the first."""
        done = self._executor.collect(POLL_S)
        self._measured |= {item.number: item.outcome for item in done if item.number < 0}
        steps = [StepEvaluated(step_number=item.number, outcome=item.outcome) for item in done if item.number >= 0]
        if steps:
            self._journal.write(*steps)
        self._journal.heartbeat()

    def _no_parent(self) -> StopReason:
        """Stop a run none of whose seeds is right, and say what was wrong with them."""
        found = [self._state.outcomes[seed.id] for seed in self._state.seeds]
        seeds = "; ".join(f"{short_id(outcome.candidate_id)} {outcome.verdict}: {outcome.message}" for outcome in found)
        self._journal.write(RunNoted(text=f"no seed is right in every scenario, so there is nothing to ask about: {seeds}"))
        faulted = any(outcome.verdict is Verdict.HARNESS_FAULT for outcome in found)
        return StopReason.FAULTS if faulted else StopReason.EXHAUSTED

    def _limit(self) -> StopReason | None:
        """The reason why no further question may be asked."""
        if self._state.faults >= FAULTS_IN_A_ROW:
            return StopReason.FAULTS
        if self._state.barren >= self._terms.exhausted_after:
            return StopReason.EXHAUSTED
        spent = self._state.spent
        return self._terms.budget.exceeded_by(replace(spent, wall_s=spent.wall_s + self._journal.unstored_s))

    def _wind_up(self, reason: StopReason) -> StopReason:
        """Finish what was paid for. A run that is over folds everything and has its best verified; one that is to go on folds
        nothing that its next proposal may not see.
        """
        if reason not in GOES_ON and self._see(self._state.next_number - 1):
            met = self._finals.verify_best()
            return StopReason.GOAL if met else self._interrupted if self._stop or self._refused else reason
        if self._evaluates:
            self._finish(everything=reason is StopReason.WAITING)
        return reason if reason in GOES_ON else self._interrupted

    def _finish(self, *, everything: bool) -> None:
        """Wait for the evaluations under way; for ``everything`` that is open, unless the run is asked to stop."""
        while everything and self._state.waiting and not self._stop:
            self._collect()
        running = sorted(self._state.waiting)[: self._terms.workers]
        while any(number in self._state.waiting for number in running):
            self._collect()

    def _measure(self, request: Request) -> Outcome | None:
        """The outcome of a final, None where the run is asked to stop first or this driver doesn't evaluate."""
        if not self._evaluates:
            self._refused = True
            return None
        name = short_id(request.candidate.id)
        self._journal.write(RunNoted(text=f"final of {name} begins: fresh inputs, hidden shapes, all rivals"))
        number = -1 - len(self._measured)
        self._executor.submit(number, request)
        while number not in self._measured:
            if self._stop:
                return None
            self._collect()
        return self._measured[number]
