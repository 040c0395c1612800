"""The seam between the search and whoever answers its questions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from mutators.question import Answer, Question
from population.candidate import Candidate, Knob


@dataclass(frozen=True, slots=True, kw_only=True)
class Relative:
    """An earlier step near this parent: what was asked, predicted and found. Shown to mutators as history.

    ``verdict`` is a harness verdict or an answer rejection; ``ratio`` the measured ratio to its parent, None without a score.
    """

    number: int
    question: str
    hypothesis: str
    prediction: Mapping[str, float]
    verdict: str
    ratio: float | None
    knobs: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRecord:
    """What one language model's answers have given so far.

    ``gain`` sums max(0, log of the verified ratio to the parent) over accepted answers, ``best`` is the largest of these.
    """

    answers: int = 0
    gain: float = 0.0
    best: float = 0.0
    wall_s: float = 0.0
    cost_usd: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """Everything a mutator may see. ``text`` is the whole prompt with the question last; the rest is the same as values.

    ``model``: who gave the answer that is sent back, and is to be asked again; "" where none is.
    """

    step_number: int
    question: Question
    parent: Candidate
    knobs: tuple[Knob, ...]
    children: Sequence[Relative]  # earlier children of this parent, oldest first
    lineage: Sequence[Relative]  # the parent's own ancestry, oldest first
    text: str
    models: Mapping[str, ModelRecord] = field(default_factory=dict)  # folded results only, so that a replay chooses the same
    model: str = ""


class Answerer(Protocol):
    """Answers one prompt, however long that takes. Random state comes in as ``rng``, so that a replay gives the same answer.

    One that takes long is a SlowAnswerer.
    """

    name: str

    def answer(self, prompt: Prompt, rng: np.random.Generator) -> Answer:
        """The raw answer; what is wrong with it is found by ``mutators.edits``.

        Whatever this raises pauses the run with its text, so it should say what to do next; the prompt stays open.
        """


class SlowAnswerer(Answerer, Protocol):
    """An answerer that is called from several threads at once, for several open prompts."""

    def close(self) -> None:
        """Begin nothing new, such as another try; what is under way is finished."""
