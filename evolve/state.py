"""The run as it stands: a projection of its events, folded by the same code while it is live and when it is resumed.

Steps are posed, taken in and folded in the order of asking, each at its own pace: step k is posed when the steps up to
k - lookahead are folded, and taken in once its answer is there. Whatever a step decides is a function of what was folded when it
was posed and of the answers before its own, so it doesn't matter when an answer came.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import takewhile

from evaluator.outcome import Fault, Outcome, Verdict
from evaluator.plan.knobs import knobs_of
from evaluator.plan.parse import parse_plan
from evaluator.request import Request
from evaluator.task_card import TaskCard
from evolve.budget import Spent, gpu_s_of
from evolve.open_step import Open
from evolve.rules import Rules
from evolve.suspicion import Suspicion
from mutators.answerers.base import ModelRecord
from mutators.answerers.models import with_answer
from mutators.attempts import Attempt, attempt_of, change_of
from mutators.question import Layer, Question, Usage
from mutators.record_file import records_from
from mutators.records import Records
from population.archive import AddStatus, Member
from population.candidate import Candidate, Knob, Origin, Step
from population.islands import IslandArchive
from population.novelty import Known
from results.codec import rebuild
from results.events import (
    UNANSWERED,
    Event,
    FinalMeasured,
    OutcomeMerged,
    RunNoted,
    RunStopped,
    StepAsked,
    StepEvaluated,
    StepFolded,
    StepPosed,
    TimeSpent,
)

RECORDS_FACT = "question_records"
"""The fact of a note that holds the records of earlier runs, as they stood when this one began."""

SAYS_NOTHING = frozenset({Verdict.AMBIGUOUS, Verdict.HARNESS_FAULT, Verdict.CANCELLED})
"""Verdicts of a final that neither verify nor refute the candidate."""


class ReplayError(Exception):
    """The stored events don't give what they gave when they were written."""


class State:
    """Everything the search knows. ``apply`` takes stored events in; ``fold`` makes the next one of its own.

    A step's life: posed (seeds are not); asked, which is when its answer is taken in; its result arrives (at once for rejected
    answers and duplicates); folded, in the order of asking.
    """

    def __init__(self, card: TaskCard, rules: Rules) -> None:
        self.card = card
        self.asked: list[StepAsked] = []
        """Steps whose answer was taken in."""
        self.open: dict[int, Open] = {}
        """Steps that were posed and not yet taken in, by number: they follow those asked."""
        self.folded = 0
        """Number of the next step to fold."""
        self.waiting: dict[int, Request] = {}
        """Evaluations asked for whose outcome hasn't arrived."""
        self.known = Known()
        self.outcomes: dict[str, Outcome] = {}
        """Folded outcomes by candidate."""
        self.attempts: defaultdict[int, list[Attempt]] = defaultdict(list)
        """Folded steps by island, oldest first."""
        self.layers: defaultdict[int, list[Layer]] = defaultdict(list)
        """Layers that questions on an island were about, oldest first, open steps included."""
        self.makers: dict[str, Attempt] = {}
        """The folded step that first made a candidate."""
        self.records = Records()
        self.models: Mapping[str, ModelRecord] = {}
        """What the answers of each language model have given, folded steps alone."""
        self.prior = Records()
        """What questions gave in earlier runs, as the run's own log holds it."""
        self.finals: dict[str, Outcome] = {}
        self.merged: list[OutcomeMerged] = []
        """Outcomes that were measured elsewhere; they stand beside the run's own."""
        self.quarantined: set[str] = set()
        """Candidates whose final refuted them, or that were caught cheating elsewhere: they are out of the archive."""
        self.suspicion = Suspicion()
        """Who has to be examined in full because of whom."""
        self._thorough: set[int] = set()
        self.spent = Spent()
        self.barren = 0
        """Steps in a row, up to the last folded, that brought no new candidate."""
        self.faults = 0
        """Evaluations of this driver in a row, up to the last folded, that ended in a fault of the harness."""
        self.noted: list[RunNoted] = []
        self._rules = rules
        self._archive = rules.archive(len(card.scenarios))
        self._arrived: dict[int, Outcome] = {}
        self._folds: list[tuple[Step, Outcome | None, Attempt]] = []
        self._from: defaultdict[str, list[int]] = defaultdict(list)
        self._knobs: dict[str, tuple[Knob, ...]] = {}

    @property
    def next_number(self) -> int:
        """The number of the next step to pose."""
        return len(self.asked) + len(self.open)

    @property
    def seed_steps(self) -> Sequence[StepAsked]:
        """The steps that planted seeds: the first of the run."""
        return list(takewhile(lambda asked: asked.step.origin is Origin.SEED, self.asked))

    @property
    def seeds(self) -> tuple[Candidate, ...]:
        """The seed kernels in the order of the configuration, duplicates left out."""
        return tuple({asked.candidate.id: asked.candidate for asked in self.seed_steps if asked.candidate}.values())

    @property
    def faulted_seeds(self) -> tuple[Candidate, ...]:
        """Seeds that only the harness failed."""
        outcomes = [(seed, self.outcomes.get(seed.id)) for seed in self.seeds]
        return tuple(seed for seed, outcome in outcomes if outcome and outcome.verdict is Verdict.HARNESS_FAULT)

    @property
    def right_seeds(self) -> tuple[Candidate, ...]:
        """Seeds that were found right: the rivals of every final."""
        verdicts = {seed.id: outcome.verdict for seed in self.seeds if (outcome := self.outcomes.get(seed.id))}
        return tuple(seed for seed in self.seeds if verdicts.get(seed.id) in (Verdict.OK, Verdict.AMBIGUOUS))

    def steps_from(self, parent_id: str) -> Sequence[int]:
        """The number of every step that started from a candidate, oldest first, open ones included."""
        return self._from[parent_id]

    def question_ids(self, origin: Origin) -> Sequence[str]:
        """The ids of everything that was asked for one reason, oldest first, open steps included."""
        taken = [(asked.step, asked.question) for asked in self.asked]
        posed = [(opened.posed.step, opened.posed.question) for opened in self.open.values()]
        return [question.id for step, question in (*taken, *posed) if question is not None and step.origin is origin]

    def question(self, number: int) -> Question | None:
        """What a step asked, None for a seed."""
        return self.open[number].posed.question if number in self.open else self.asked[number].question

    def attempt(self, number: int) -> Attempt:
        """What a folded step amounted to."""
        return self._folds[number][2]

    @property
    def archive(self) -> IslandArchive:
        """Who may breed."""
        return self._archive

    @property
    def best(self) -> Member | None:
        """The incumbent of all islands."""
        return self._archive.best()

    def ranking(self) -> Sequence[Member]:
        """The best, then every other member by its lower bound, highest first; each once."""
        members = [member for island in range(self._archive.islands) for member in self._archive.members(island)]
        members.sort(key=lambda member: (-member.score, member.number))
        found = {member.candidate_id: member for member in [*([self.best] if self.best else []), *members]}
        return list(found.values())

    def candidate(self, candidate_id: str) -> Candidate:
        """A candidate that was asked for, by its id."""
        candidate = self.known.get(candidate_id)
        if candidate is None:
            raise KeyError(f"no step of this run asked for {candidate_id}")
        return candidate

    def knobs(self, candidate_id: str) -> tuple[Knob, ...]:
        """The knobs of a candidate's plan, none where the plan can't be read."""
        if candidate_id not in self._knobs:
            candidate = self.candidate(candidate_id)
            plan = parse_plan(candidate.source, candidate.language, self.card)
            self._knobs[candidate_id] = () if isinstance(plan, Fault) else knobs_of(plan)
        return self._knobs[candidate_id]

    def known_as(self, candidate: Candidate, opened: Open) -> str | None:
        """The known candidate that this one repeats, for an open step, by what was folded when it was posed.

        One that only the harness had failed by then, or that only its lineage kept out of the archive, may be evaluated again.
        """
        match = self.known.duplicate(candidate)
        if match is None:
            return None
        found = (outcome for _, outcome, _ in reversed(self._folds[: opened.folded]) if outcome is not None)
        outcome = next((outcome for outcome in found if outcome.candidate_id == match.candidate_id), None)
        if outcome is None:
            return match.candidate_id
        faulted = outcome.verdict is Verdict.HARNESS_FAULT
        kept_out = outcome.fault is None and match.candidate_id in opened.shut_out
        return None if faulted or kept_out else match.candidate_id

    def apply(self, event: Event) -> None:
        """Take a stored event in. Raises ReplayError where a fold doesn't come out as it was stored."""
        match event:
            case StepPosed():
                self._pose(event)
            case StepAsked():
                self._ask(event)
            case StepEvaluated():
                self._hold(event.outcome)
                del self.waiting[event.step_number]
                self._arrived[event.step_number] = event.outcome
            case StepFolded():
                self._fold_again(event)
            case FinalMeasured():
                self._hold(event.outcome)
                self._finish(event.outcome)
            case OutcomeMerged():
                self.merged.append(event)
                if event.outcome.fault is not None and event.outcome.fault.cheats:
                    self._quarantine(event.outcome)
            case TimeSpent():
                self.spent = replace(self.spent, wall_s=self.spent.wall_s + event.wall_s)
            case RunNoted():
                self.noted.append(event)
                if UNANSWERED in event.facts:
                    self._pay(rebuild(Usage, event.facts[UNANSWERED]))
                if RECORDS_FACT in event.facts:
                    self.prior = records_from(event.facts[RECORDS_FACT])
            case RunStopped():
                self.faults = 0

    @property
    def can_fold(self) -> bool:
        """Whether the next step in the order of asking has its result."""
        return self.folded < len(self.asked) and self.folded not in self.waiting

    def fold(self) -> StepFolded:
        """Fold the next step's result into the archive and the records; the event says what became of it."""
        asked = self.asked[self.folded]
        outcome = self._arrived.pop(self.folded, None)
        parent_id = asked.step.parent_id
        if outcome is not None:
            self.outcomes[outcome.candidate_id] = outcome
            self._count_faults(outcome)
            self.suspicion.take_in(asked.step, outcome, in_full=asked.step.number in self._thorough)
        status = self._archive.fold(asked.step, self._admissible(outcome))
        attempt = attempt_of(
            step=asked.step,
            accepted=status is not AddStatus.NOT_ADDED and self._improves_parent(outcome, parent_id),
            question=asked.question,
            answer=asked.answer,
            header=asked.header,
            rejected=asked.rejected,
            outcome=outcome,
            parent_outcome=self.outcomes.get(parent_id) if parent_id else None,
            source=asked.candidate.source if asked.candidate else None,
            parent_source=self.candidate(parent_id).source if parent_id else None,
        )
        self._folds.append((asked.step, outcome, attempt))
        self.attempts[asked.step.island].append(attempt)
        if attempt.candidate_id is not None:
            self.makers.setdefault(attempt.candidate_id, attempt)
        self.records = self.records.plus(attempt)
        self.models = with_answer(self.models, asked.answer, attempt)
        self.barren = self.barren + 1 if asked.candidate is None else 0
        self.folded += 1
        return StepFolded(
            step_number=asked.step.number,
            status=self._word(asked, status),
            accepted=attempt.accepted,
            best_id=self.best.candidate_id if self.best else None,
        )

    def _improves_parent(self, outcome: Outcome | None, parent_id: str | None) -> bool:
        """Whether the lower bound lies above the parent's median; a seed has no parent to improve."""
        if parent_id is None:
            return True
        change = change_of(outcome, self.outcomes.get(parent_id))
        return change is not None and change.low is not None and change.low > 1

    def _fold_again(self, stored: StepFolded) -> None:
        again = self.fold() if self.can_fold else None
        if again != stored:
            found = "without a result" if again is None else again.status
            raise ReplayError(
                f"step {stored.step_number} was stored as {stored.status} and replays {found}: the rules have changed since. "
                "Resume with the version of askevolve that wrote the run, or start a new one from its best kernel"
            )

    def _pose(self, posed: StepPosed) -> None:
        self.open[posed.step.number] = Open(
            posed=posed,
            folded=self.folded,
            incumbent_low=self._incumbent_low,
            suspects=self.suspicion.suspects,
            shut_out=frozenset(self.suspicion.shut_out),
            models=self.models,
        )
        self._begin(posed.step, posed.question)

    def _begin(self, step: Step, question: Question | None) -> None:
        if step.parent_id is not None:
            self._from[step.parent_id].append(step.number)
        if question is not None:
            self.layers[step.island].append(question.layer)

    def _ask(self, asked: StepAsked) -> None:
        opened = self.open.pop(asked.step.number, None)
        if opened is None:
            self._begin(asked.step, asked.question)
        self.asked.append(asked)
        if asked.answer is not None:
            self._pay(asked.answer.usage)
        if asked.candidate is not None:
            self.known.add(asked.candidate)
            self.spent = replace(self.spent, candidates=self.spent.candidates + 1)
            suspects = opened.suspects if opened else self.suspicion.suspects
            thorough = bool({asked.step.parent_id, asked.candidate.id} & suspects)
            self._thorough |= {asked.step.number} if thorough else set()
            low = opened.incumbent_low if opened else self._incumbent_low
            self.waiting[asked.step.number] = Request(candidate=asked.candidate, incumbent_low=low, thorough=thorough)

    def _hold(self, outcome: Outcome) -> None:
        self.spent = replace(self.spent, gpu_s=self.spent.gpu_s + gpu_s_of(outcome))

    def _pay(self, usage: Usage) -> None:
        self.spent = replace(
            self.spent,
            tokens=self.spent.tokens + usage.prompt_tokens + usage.answer_tokens,
            usd=self.spent.usd + usage.cost_usd,
        )

    @property
    def _incumbent_low(self) -> float | None:
        return self.best.score if self.best else None

    def _count_faults(self, outcome: Outcome) -> None:
        if outcome.verdict is Verdict.HARNESS_FAULT:
            self.faults += 1
            self.spent = replace(self.spent, candidates=self.spent.candidates - 1)
        else:
            self.faults = 0

    def _finish(self, outcome: Outcome) -> None:
        """Take a final in."""
        self.finals[outcome.candidate_id] = outcome
        if outcome.verdict is Verdict.OK:
            self.suspicion.verified(outcome.candidate_id)
        elif outcome.verdict not in SAYS_NOTHING:
            self._quarantine(outcome)

    def _quarantine(self, outcome: Outcome) -> None:
        """Have a candidate that an outcome refutes leave the archive, which is built again without it."""
        self.quarantined.add(outcome.candidate_id)
        if outcome.fault is not None and outcome.fault.cheats:
            self.suspicion.caught(outcome.candidate_id, [step for step, _, _ in self._folds])
        self._archive = self._rules.archive(len(self.card.scenarios))
        for step, found, _ in self._folds:
            self._archive.fold(step, self._admissible(found))

    def _admissible(self, outcome: Outcome | None) -> Outcome | None:
        """The outcome, None where its candidate may not enter the archive."""
        out = outcome is not None and outcome.candidate_id in self.quarantined | self.suspicion.shut_out
        return None if out else outcome

    @staticmethod
    def _word(asked: StepAsked, status: AddStatus) -> str:
        """The archive's word, or why a step had nothing to give it."""
        if asked.rejected is not None:
            return "rejected"
        return "duplicate" if asked.candidate is None else status.word
