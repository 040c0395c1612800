"""A step between its question and its answer."""

from collections.abc import Mapping
from dataclasses import dataclass

from mutators.answerers.base import ModelRecord
from results.events import StepPosed


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """A step whose answer is awaited, and what was known when it was posed: how many steps were folded, the lower bound of the
    best, who was suspect and who shut out because of a cheat, what each language model's answers had given.
    """

    posed: StepPosed
    folded: int
    incumbent_low: float | None
    suspects: frozenset[str]
    shut_out: frozenset[str]
    models: Mapping[str, ModelRecord]
