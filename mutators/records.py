"""What questions have given so far, per question and per layer."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from evaluator.outcome import Verdict
from mutators.attempts import Attempt
from mutators.question import Layer

SECONDS_PER_ATTEMPT = 60.0
"""Seconds of answering and evaluating that weigh as much as one attempt in ``Record.cost``."""

USD_PER_ATTEMPT = 0.10
"""Money that weighs as much as one attempt in ``Record.cost``."""

_OURS = frozenset({Verdict.HARNESS_FAULT.value, Verdict.CANCELLED.value})


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Counts of one question or layer.

    ``answered``: answers that made a candidate. ``gain``: sum over accepted answers of max(0, log of the verified ratio to the
    parent), verified meaning its lower bound where both were timed in the same scenarios. ``best`` is the largest of these.
    """

    asked: int = 0
    answered: int = 0
    accepted: int = 0
    gain: float = 0.0
    best: float = 0.0
    wall_s: float = 0.0
    cost_usd: float = 0.0

    @property
    def cost(self) -> float:
        """Cost in attempts: one each, plus seconds and money at the fixed rates above."""
        return self.asked + self.wall_s / SECONDS_PER_ATTEMPT + self.cost_usd / USD_PER_ATTEMPT

    def plus(self, attempt: Attempt) -> "Record":
        """The record with one more attempt."""
        gain = gain_of(attempt)
        return Record(
            asked=self.asked + 1,
            answered=self.answered + (attempt.candidate_id is not None),
            accepted=self.accepted + attempt.accepted,
            gain=self.gain + gain,
            best=max(self.best, gain),
            wall_s=self.wall_s + attempt.wall_s,
            cost_usd=self.cost_usd + attempt.cost_usd,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """Records by bank entry and by layer."""

    entries: Mapping[str, Record] = field(default_factory=dict)
    layers: Mapping[Layer, Record] = field(default_factory=dict)

    def plus(self, attempt: Attempt) -> "Records":
        """The records with one more attempt; steps without a question and faults of the harness leave them as they are."""
        question = attempt.question
        if question is None or attempt.verdict in _OURS:
            return self
        entry = self.entries.get(question.entry_id, Record())
        layer = self.layers.get(question.layer, Record())
        return replace(
            self,
            entries={**self.entries, question.entry_id: entry.plus(attempt)},
            layers={**self.layers, question.layer: layer.plus(attempt)},
        )


def records_of(history: Iterable[Attempt]) -> Records:
    """The records that a history amounts to."""
    records = Records()
    for attempt in history:
        records = records.plus(attempt)
    return records


def gain_of(attempt: Attempt) -> float:
    """max(0, log of the verified ratio to the parent) of an accepted attempt, else 0."""
    if not attempt.accepted or attempt.change is None:
        return 0.0
    ratio = attempt.change.ratio if attempt.change.low is None else attempt.change.low
    return max(0.0, math.log(ratio))
