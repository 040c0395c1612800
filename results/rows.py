"""What readers of a run get: frozen values, one per row."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from evaluator.task_card import TaskCard
from population.candidate import Language, Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """One run at a glance.

    ``events`` is the last sequence number. ``evaluated``, ``folded`` and ``accepted`` count steps, the last without seeds;
    ``open_steps`` those that were posed and whose answer is awaited, ``swept`` those that turned knobs after an accepted edit.
    ``elsewhere`` counts outcomes that came home and stand beside the run's own. ``spent_s`` is the time in which its drivers had
    work in hand. ``stopped_by`` is None while it goes on or after a crash; ``live`` says whether a driver holds it now.
    """

    name: str
    folder: Path
    config: Mapping[str, object]
    config_hash: str
    card: TaskCard
    version: str
    started_at: float
    last_at: float
    events: int
    steps: int
    open_steps: int
    candidates: int
    elsewhere: int
    evaluated: int
    folded: int
    accepted: int
    swept: int
    best_id: str | None
    spent_s: float
    cost_usd: float
    tokens: int
    stopped_by: str | None
    live: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateRow:
    """A candidate with the figures of its search outcome, None where it has none (yet).

    ``step_number`` is the step that first proposed it and ``parent_id`` that step's parent; ``depth`` counts edges to its seed.
    Ratios are against ``opponent`` over ``scenarios`` scenarios. ``status`` is the archive's word, ``accepted`` is None
    until it is folded. One that only came home from elsewhere has no step and no island, and none of the run's own figures.
    """

    id: str
    normal_id: str
    language: Language
    step_number: int | None
    origin: Origin
    island: int | None
    parent_id: str | None
    depth: int
    verdict: str | None
    stage: str | None
    message: str | None
    opponent: str | None
    scenarios: int | None
    low: float | None
    geomean: float | None
    high: float | None
    worst_scenario: str | None
    worst_ratio: float | None
    status: str | None
    accepted: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRow:
    """What came home from one kind of device: outcomes, how many of them are finals, and how many finals verified a candidate."""

    device: str
    arch: str
    outcomes: int
    finals: int
    verified: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRow:
    """A proposal: what was asked, what came of it. Question and answer fields are None where nothing was asked."""

    number: int
    id: str
    asked_at: float
    origin: Origin
    island: int
    parent_id: str | None
    candidate_id: str | None
    duplicate_of: str | None
    question_id: str | None
    entry_id: str | None
    layer: str | None
    moment: str | None
    question: str | None
    answerer: str | None
    tokens: int
    cost_usd: float
    answer_s: float
    hypothesis: str | None
    claim: str | None
    rejection: str | None
    verdict: str | None
    low: float | None
    geomean: float | None
    high: float | None
    status: str | None
    accepted: bool | None
    gain: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FunnelRow:
    """How many steps ended at a stage with a word: a verdict, an answer's rejection, ``duplicate`` or ``waiting``."""

    stage: str
    word: str
    steps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionRow:
    """The record of one question (``key`` is its bank entry) or of one layer.

    ``answered`` counts steps that made a new candidate, ``right`` those with verdict OK or SLOWER, ``accepted`` what the
    search kept as a gain. ``gain`` sums the natural logarithms of accepted ratios to the parent; ``evaluation_s`` is the
    harness's time, ``answer_s`` the mutator's.
    """

    key: str
    layer: str
    asked: int
    answered: int
    right: int
    accepted: int
    gain: float
    tokens: int
    cost_usd: float
    answer_s: float
    evaluation_s: float
