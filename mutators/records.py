"""What questions have given so far, per question and per layer."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace

from evaluator.outcome import Verdict
from mutators.attempts import Attempt
from mutators.question import Layer, Question
from population.candidate import hash_text

SECONDS_PER_ATTEMPT = 60.0
"""Seconds of answering and evaluating that weigh as much as one attempt in ``Record.cost``."""

USD_PER_ATTEMPT = 0.10
"""Money that weighs as much as one attempt in ``Record.cost``."""

LEFT = 0.75
"""Part of a paid step that the next one about the same layer is expected to bring: what there is shrinks as it is taken."""

ANSWER_FADING = 0.95
"""What an answer still counts for in ``late_asked`` and ``late_paid`` after the next one about the same matter."""

MESSAGE = "message"
"""Begins the key of what a person only told."""

PEOPLE = frozenset({"human", MESSAGE})
"""Entry ids of what people asked or only told; each text has a record of its own."""

_OURS = frozenset({Verdict.HARNESS_FAULT.value, Verdict.CANCELLED.value})


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Counts of one question or layer.

    ``answered``: answers that made a candidate. ``gain``: sum over accepted answers of max(0, log of the verified ratio to the
    parent), verified meaning its lower bound where both were timed in the same scenarios. ``best`` is the largest of these,
    ``paid`` counts those above 0, ``next_step`` is the log speed that the next of them may bring. ``late_asked`` and
    ``late_paid`` count answers faded by ANSWER_FADING.
    """

    asked: int = 0
    answered: int = 0
    accepted: int = 0
    gain: float = 0.0
    best: float = 0.0
    paid: int = 0
    late_asked: float = 0.0
    next_step: float = 0.0
    late_paid: float = 0.0
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
            paid=self.paid + (gain > 0),
            next_step=self._next_step(gain),
            late_asked=self.late_asked * ANSWER_FADING + 1,
            late_paid=self.late_paid * ANSWER_FADING + (gain > 0),
            wall_s=self.wall_s + attempt.wall_s,
            cost_usd=self.cost_usd + attempt.cost_usd,
        )

    def _next_step(self, gain: float) -> float:
        """After a paid step: part of the mean of what it brought and what had been expected."""
        if gain <= 0:
            return self.next_step
        return LEFT * (gain if self.paid == 0 else (gain + self.next_step) / 2)

    def joined(self, other: "Record") -> "Record":
        """Two records as one, in any order; ``best`` and ``next_step`` are the larger of both."""
        sums = {name: getattr(self, name) + getattr(other, name) for name in _SUMMED}
        return Record(best=max(self.best, other.best), next_step=max(self.next_step, other.next_step), **sums)


_SUMMED = tuple(field.name for field in fields(Record) if field.name not in {"best", "next_step"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """Records by bank entry (what people asked: by text, see ``key_of``) and by layer."""

    entries: Mapping[str, Record] = field(default_factory=dict)
    layers: Mapping[Layer, Record] = field(default_factory=dict)

    def plus(self, attempt: Attempt) -> "Records":
        """The records with one more attempt; steps without a question and faults of the harness leave them as they are."""
        question = attempt.question
        if question is None or attempt.verdict in _OURS:
            return self
        keys = (key_of(question), *told_in(question))
        layer = self.layers.get(question.layer, Record())
        return replace(
            self,
            entries={**self.entries, **{key: self.entries.get(key, Record()).plus(attempt) for key in keys}},
            layers={**self.layers, question.layer: layer.plus(attempt)},
        )

    def joined(self, other: "Records") -> "Records":
        """Two records as one, question by question and layer by layer, in a fixed order."""
        names, layers = sorted({*self.entries, *other.entries}), sorted({*self.layers, *other.layers})
        return Records(
            entries={name: self.entries.get(name, Record()).joined(other.entries.get(name, Record())) for name in names},
            layers={layer: self.layers.get(layer, Record()).joined(other.layers.get(layer, Record())) for layer in layers},
        )


def key_of(question: Question) -> str:
    """The name of a question's record: its bank entry, or for what a person wrote the kind and the first digits of its hash."""
    return f"{question.entry_id}:{question.id[:16]}" if question.entry_id in PEOPLE else question.entry_id


def told_in(question: Question) -> Mapping[str, str]:
    """What people only told along with a question, by the names of its records: what came of the steps that heard it."""
    return {f"{MESSAGE}:{hash_text(text)[:16]}": text for text in question.told}


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
