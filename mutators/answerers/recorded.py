"""An answerer that gives answers again which were given before: for tests, and for looking at a run once more."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mutators.answerers.base import Prompt
from mutators.answerers.failures import Unanswered
from mutators.question import Answer
from population.candidate import hash_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """An answer with the step it was given at and the SHA-256 of the prompt it was given to; None where that isn't known."""

    answer: Answer
    step: int | None = None
    prompt_hash: str | None = None


class RecordedAnswerer:
    """Answers a prompt as it was answered before, else, where a prompt is new, as its step was answered before.

    Of several answers to the same prompt that of the same step is given, else the first.
    """

    name = "recorded"

    def __init__(self, recordings: Sequence[Recording], source: str) -> None:
        self._recordings = tuple(recordings)
        self._source = source

    def answer(self, prompt: Prompt, rng: np.random.Generator) -> Answer:
        """The recorded answer. Raises Unanswered where there is none."""
        prompt_hash = hash_text(prompt.text)
        same = [one for one in self._recordings if one.prompt_hash == prompt_hash]
        ranked = [*(one for one in same if one.step == prompt.step_number), *same]
        ranked += [one for one in self._recordings if one.step == prompt.step_number]
        if not ranked:
            raise Unanswered(
                f"{self._source} holds no answer to prompt {prompt_hash[:10]} or to step {prompt.step_number}; add one, or "
                "resume with another mutation.answerer"
            )
        return ranked[0].answer


def recordings_in(folder: Path) -> tuple[Recording, ...]:
    """The answers in a folder's files: ``17.md`` is the answer to step 17, a file named by 64 hexadecimal digits that to the
    prompt with this SHA-256. Any ending will do; other files are left alone. Raises OSError.
    """
    found = []
    for path in sorted(folder.iterdir()):
        if not path.is_file():
            continue
        answer = Answer(text=path.read_text(encoding="utf-8", errors="surrogateescape"), answerer=RecordedAnswerer.name)
        if re.fullmatch(r"\d{1,9}", path.stem):
            found.append(Recording(answer=answer, step=int(path.stem)))
        elif re.fullmatch(r"[0-9a-f]{64}", path.stem):
            found.append(Recording(answer=answer, prompt_hash=path.stem))
    return tuple(found)
