"""The search: pick a parent, see what was measured about it, ask a question, have the answer evaluated, keep what is better.

Answers are taken in and results folded in the order of asking. Proposal k sees exactly the results of proposals up to
k - lookahead, whatever was answered or finished first and however many workers there are; its random streams depend on the run's
seed and k alone. So the events decide everything, and a driver that was killed goes on by replaying them.
"""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from evaluator.outcome import Outcome, Verdict
from evaluator.request import Request
from evolve.budget import Budget
from evolve.desks import Desk
from evolve.errors import AnswererFailed, EnvironmentUnfit
from evolve.executors.base import Executor
from evolve.finals import Finals
from evolve.goal import Goal
from evolve.journal import Journal
from evolve.merge_rules import measured_alike, yardstick_of
from evolve.posing import Mutation, pose, prompt_again, streams
from evolve.proposal import plant, take_in
from evolve.state import State
from evolve.stopping import GOES_ON, StopReason, StopRequest
from evolve.sweep import Sweeps
from mutators.answerers.budget import Resource
from mutators.answerers.failures import BudgetSpent
from population.candidate import Candidate, short_id
from results.codec import plain
from results.events import ENDING, UNANSWERED, WHY_STOPPED, RunNoted, RunStopped, StepAsked, StepEvaluated
from results.mailbox import Mailbox

POLL_S = 0.5
SPENT = {
    Resource.TOKENS: StopReason.TOKENS,
    Resource.USD: StopReason.USD,
    Resource.GPU_S: StopReason.GPU_HOURS,
    Resource.WALL_S: StopReason.HOURS,
}
"""The reason to stop where what is left of a resource doesn't pay for another call."""
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
    With ``until_idle`` a driver stops, once all is evaluated, where it could only wait for answers from outside.
    """

    def __init__(
        self,
        *,
        state: State,
        journal: Journal,
        executor: Executor,
        desk: Desk,
        mailbox: Mailbox,
        mutation: Mutation,
        sweeps: Sweeps,
        terms: Terms,
        stop: StopRequest,
        evaluates: bool = True,
        until_idle: bool = False,
    ) -> None:
        self._state = state
        self._journal = journal
        self._executor = executor
        self._desk = desk
        self._mailbox = mailbox
        self._mutation = mutation
        self._sweeps = sweeps
        self._terms = terms
        self._stop = stop
        self._evaluates = evaluates
        self._until_idle = until_idle
        self._refused = False
        """Whether a final was called for here though this driver doesn't evaluate."""
        self._finals = Finals(state=state, journal=journal, measure=self._measure, goal=terms.goal)
        self._measured: dict[int, Outcome] = {}
        self._yardstick = yardstick_of(state.outcomes.values())

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
        for number in self._state.open:
            prompt = prompt_again(self._state, number, self._journal.prompt(number))
            self._desk.put(prompt, streams(self._terms.seed, number).answer)
        try:
            reason = self._wind_up(self._search())
        except EnvironmentUnfit as unfit:  # what is open stays open, and nobody is blamed
            self._leave()
            reason = self._stopping(StopReason.ENVIRONMENT, unfit)
        self._leave()
        self._journal.close(RunStopped(reason=reason))
        return reason

    def _search(self) -> StopReason:
        """Ask until there is a reason to stop."""
        try:
            while (reason := self._step()) is None:
                pass
        except AnswererFailed as error:
            self._leave()
            return self._stopping(StopReason.ANSWERER, error)
        except BudgetSpent as error:
            self._leave()
            with contextlib.suppress(BudgetSpent):  # what was paid for meanwhile
                self._take_in()
            self._journal.write(RunNoted(text=str(error)))
            return SPENT[error.resource]
        return reason

    def _stopping(self, reason: StopReason, error: Exception) -> StopReason:
        """The reason, which is noted with all that is known of it."""
        self._journal.write(RunNoted(text=str(error), facts={WHY_STOPPED: reason.value}))
        return reason

    def _leave(self) -> None:
        """Have the desk finish what is under way, and note what its calls cost that gave no answer."""
        usage = self._desk.close()
        if usage.paid:
            text = f"calls without an answer cost {usage.prompt_tokens + usage.answer_tokens} tokens, {usage.cost_usd:.4f} USD"
            self._journal.write(RunNoted(text=text, facts={UNANSWERED: plain(usage)}))

    def _step(self) -> StopReason | None:
        """Turn a knob or put one more question; or the reason to stop. Raises AnswererFailed, BudgetSpent."""
        number = self._state.next_number
        if (reason := self._see(max(number - self._terms.lookahead, len(self._state.seed_steps) - 1))) is not None:
            return reason
        if self._finals.reach_goal():
            return StopReason.GOAL
        if self._refused:
            return StopReason.EVALUATION
        if (reason := self._limit()) is not None:
            return reason
        if self._state.best is None:
            return self._no_parent()
        if self._sweeps.due and (reason := self._hear_all()) is not None:
            return reason
        if (turned := self._sweeps.next()) is not None:
            self._ask(turned)
            return None
        posed, prompt = pose(self._state, self._mutation, self._terms.seed, self._mailbox.asked())
        self._journal.write(posed, prompts=[prompt.text])
        self._desk.put(prompt, streams(self._terms.seed, number).answer)
        self._take_in()
        return None

    def _see(self, last: int) -> StopReason | None:
        """Fold every step up to ``last``, waiting for its answer and result; the reason where that can't be now."""
        while not self._stop and self._state.folded <= last:
            if self._state.can_fold:
                self._journal.fold()
            elif (reason := self._advance(self._state.folded)) is not None:
                return reason
        return StopReason.REQUESTED if self._stop else None

    def _advance(self, needed: int) -> StopReason | None:
        """Wait a moment for answers and results; the reason where that of step ``needed`` can't come to this driver.

        Time in which nothing is in hand but people and programs outside may answer isn't spent.
        """
        if self._take_in():
            return None
        if self._state.waiting and self._evaluates:
            self._collect()
            return None
        if needed not in self._state.open:
            return StopReason.EVALUATION
        if self._desk.outside and self._until_idle:
            return StopReason.WAITING
        with self._journal.uncounted() if self._desk.outside else contextlib.nullcontext():
            self._desk.wait(POLL_S)
        self._journal.heartbeat()
        return self._budget_exceeded()

    def _take_in(self) -> bool:
        """Take in, in the order of asking, every answer that is there, and have it evaluated; whether there was one."""
        before = len(self._state.asked)
        while (number := len(self._state.asked)) in self._state.open and (answer := self._desk.take(number)) is not None:
            self._ask(take_in(self._state, answer))
        return len(self._state.asked) > before

    def _ask(self, asked: StepAsked) -> None:
        """Store a step whose candidate is known, and have it evaluated."""
        self._journal.write(asked)
        number = asked.step.number
        if number in self._state.waiting:
            self._executor.submit(number, self._state.waiting[number])

    def _collect(self) -> None:
        """Store what has been evaluated since the last call, waiting a moment for the first. Raises EnvironmentUnfit where it was
        measured on another kind of device than the run.
        """
        done = self._executor.collect(POLL_S)
        for item in done:
            self._yardstick = measured_alike(self._yardstick, item.outcome)
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
        """The reason why no further question may be put. Each open one may cost a candidate, so where the budget can't pay for
        them all, one more is put only when it is known what they cost.
        """
        if self._state.faults >= FAULTS_IN_A_ROW:
            return StopReason.FAULTS
        if self._state.barren >= self._terms.exhausted_after:
            return StopReason.EXHAUSTED
        if (reason := self._budget_exceeded()) is not None:
            return reason
        while (opened := self._state.open) and self._state.spent.candidates + len(opened) >= self._terms.budget.candidates:
            if (reason := self._hear()) is not None:
                return reason
        return self._budget_exceeded()

    def _hear_all(self) -> StopReason | None:
        """Take in the answers to every open prompt, waiting for them; the reason where that can't be now."""
        while self._state.open:
            if (reason := self._hear()) is not None:
                return reason
        return None

    def _hear(self) -> StopReason | None:
        """Wait a moment for the answer to the oldest open prompt; the reason where it can't come to this driver."""
        return StopReason.REQUESTED if self._stop else self._advance(min(self._state.open))

    def _budget_exceeded(self) -> StopReason | None:
        spent = self._state.spent
        return self._terms.budget.exceeded_by(replace(spent, wall_s=spent.wall_s + self._journal.unstored_s))

    def _wind_up(self, reason: StopReason) -> StopReason:
        """Finish what was paid for. A run that is over folds everything that was answered and has its best verified; one that is
        to go on folds nothing that its next proposal may not see.
        """
        if reason not in GOES_ON and self._state.open:
            text = f"the run ends ({reason}); open prompts that nobody needs to answer now: {len(self._state.open)}"
            self._journal.write(RunNoted(text=text, facts={ENDING: reason.value}))
        if reason not in GOES_ON and (hindrance := self._fold_rest()) is not None:
            reason = hindrance
        elif reason not in GOES_ON:
            met = self._finals.verify_best()
            return StopReason.GOAL if met else self._interrupted if self._stop or self._refused else reason
        if self._evaluates:
            self._finish(everything=reason is StopReason.WAITING)
        return reason

    def _fold_rest(self) -> StopReason | None:
        """Fold every step whose answer was taken in; the reason where that can't be now."""
        while not self._stop and self._state.folded < len(self._state.asked):
            if self._state.can_fold:
                self._journal.fold()
            elif self._evaluates:
                self._collect()
            else:
                return StopReason.EVALUATION
        return StopReason.REQUESTED if self._stop else None

    @property
    def _interrupted(self) -> StopReason:
        """Why a final that is due isn't made."""
        return StopReason.REQUESTED if self._stop else StopReason.EVALUATION

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
        again = " again, since its last one settled nothing" if request.candidate.id in self._state.finals else ""
        self._journal.write(RunNoted(text=f"final of {name} begins{again}: fresh inputs, hidden shapes, all rivals"))
        number = -1 - len(self._measured)
        self._executor.submit(number, request)
        while number not in self._measured:
            if self._stop:
                return None
            self._collect()
        return self._measured[number]
