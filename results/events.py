"""What happens in a run, as typed events. The store writes them in order; nothing else writes to it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from evaluator.outcome import Outcome
from evaluator.task_card import TaskCard
from mutators.question import Answer, Header, Question, Rejected
from population.candidate import Candidate, Step

UNANSWERED = "unanswered"
"""The fact of a RunNoted that holds what calls cost that gave no answer."""

CONFIG_FACT = "config"
"""The fact of a RunNoted that holds a changed configuration."""

WHY_STOPPED = "why_stopped"
"""The fact that holds the reason for which a driver stopped before its time; the note's text says it at length."""

ENDING = "ending"
"""The fact that holds the reason for which a run is about to end while prompts are open: nobody need answer them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted:
    """A run came into being: its resolved configuration as TOML-like mapping, its hash, the task's card."""

    name: str
    config: Mapping[str, object]
    config_hash: str
    card: TaskCard
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPosed:
    """A question was put, and its answer is awaited: the step as far as it is known, without a candidate.

    ``prompt_hash`` is the SHA-256 of the whole prompt, whose text the store keeps. Several steps may be open, and their answers
    may come in any order; they are taken in by StepAsked, in the order of asking.
    """

    step: Step
    question: Question
    prompt_hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepAsked:
    """A step's answer was taken in, before any evaluation cost. Seeds, and all steps of schema 1, weren't posed before.

    ``duplicate_of`` names a known candidate with the same normal form. ``candidate`` is None where ``rejected`` says why, or
    where the candidate was already known.
    """

    step: Step
    question: Question | None = None
    answer: Answer | None = None
    header: Header | None = None
    rejected: Rejected | None = None
    candidate: Candidate | None = None
    duplicate_of: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEvaluated:
    """The outcome of a step's candidate arrived (in any order). Durable before anything else happens with it."""

    step_number: int
    outcome: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFolded:
    """A step's result entered the archive, in the order of asking. ``status`` is the archive's word (added, improved, best, ...);
    ``accepted``: it entered, and its lower bound lies above its parent's median.
    """

    step_number: int
    status: str
    accepted: bool
    best_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalMeasured:
    """A final verified (or refuted) a candidate."""

    outcome: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSpent:
    """Wall seconds this driver has spent since its last such event; the sum over all is what the budget counts."""

    wall_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStopped:
    """A driver stopped, and why: goal, candidates, hours, tokens, usd, gpu_hours, exhausted, requested, waiting,
    evaluation, faults, environment, answerer.
    """

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNoted:
    """Anything a reader of the run should know: a re-queued evaluation, a changed device, a host limit."""

    text: str
    facts: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepMerged:
    """A step of another run, or of a copy of this one that went another way: what was asked there, and what was answered.

    It is no step of this run. Its candidate stands in ``candidate`` and not in ``asked``; ``came_from`` names the other run.
    """

    asked: StepAsked
    candidate: Candidate | None
    came_from: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeMerged:
    """An outcome that was measured elsewhere and stands beside the run's own: it never enters the population.

    ``comparable``: on the run's own device and against its own opponent, so that a final's figures may be held against those of
    the run's finals. ``came_from`` names the other run or the file.
    """

    candidate: Candidate
    outcome: Outcome
    came_from: str
    comparable: bool


Event = (
    RunStarted
    | StepPosed
    | StepAsked
    | StepEvaluated
    | StepFolded
    | FinalMeasured
    | TimeSpent
    | RunStopped
    | RunNoted
    | StepMerged
    | OutcomeMerged
)
