"""Which of several language models is asked: a bandit over what their answers gave for what they cost.

The choice is a pure function of folded results and the step's random stream, so a resumed run chooses the same.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from mutators.answerers.base import ModelRecord
from mutators.attempts import Attempt
from mutators.question import Answer
from mutators.records import SECONDS_PER_ATTEMPT, USD_PER_ATTEMPT, gain_of

PRIOR_GAIN, PRIOR_ANSWERS = 0.5, 2.0
"""A model that nobody asked yet counts as half a best step gained in two answers, so each is tried before it is left."""


def with_answer(records: Mapping[str, ModelRecord], answer: Answer | None, attempt: Attempt) -> Mapping[str, ModelRecord]:
    """The records with one more folded attempt; answers without a known model leave them as they are."""
    if answer is None or not answer.model:
        return records
    old, gain = records.get(answer.model, ModelRecord()), gain_of(attempt)
    new = replace(
        old,
        answers=old.answers + 1,
        gain=old.gain + gain,
        best=max(old.best, gain),
        wall_s=old.wall_s + answer.usage.wall_s,
        cost_usd=old.cost_usd + answer.usage.cost_usd,
    )
    return {**records, answer.model: new}


def model_records(folded: Iterable[tuple[Answer | None, Attempt]]) -> Mapping[str, ModelRecord]:
    """The records that folded steps amount to, each given as its answer and what became of it."""
    records: Mapping[str, ModelRecord] = {}
    for answer, attempt in folded:
        records = with_answer(records, answer, attempt)
    return records


def choose_model(records: Mapping[str, ModelRecord], names: Sequence[str], rng: np.random.Generator) -> str:
    """The model to ask, one of ``names``.

    Thompson sampling: a draw of each model's gain for an answer (in units of the best single gain of any, with a Beta posterior
    as for questions) over its mean cost, which is one attempt plus the answer's seconds and money at the rates of
    ``mutators.records``.
    """
    draws = {name: _draw(records.get(name, ModelRecord()), records, rng) for name in sorted(names)}
    return max(draws, key=lambda name: draws[name])


def _draw(record: ModelRecord, records: Mapping[str, ModelRecord], rng: np.random.Generator) -> float:
    unit = max((one.best for one in records.values()), default=0.0)
    paid = record.gain / unit if unit > 0 else 0.0
    draw = float(rng.beta(PRIOR_GAIN + paid, PRIOR_ANSWERS - PRIOR_GAIN + max(0.0, record.answers - paid)))
    answers = sum(one.answers for one in records.values())
    usual = sum(_cost(one) for one in records.values()) / answers if answers else 1.0
    return draw * usual / (_cost(record) / record.answers) if record.answers else draw


def _cost(record: ModelRecord) -> float:
    """In attempts."""
    return record.answers + record.wall_s / SECONDS_PER_ATTEMPT + record.cost_usd / USD_PER_ATTEMPT
