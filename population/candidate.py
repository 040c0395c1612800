"""Shared vocabulary of the population: candidates, their knobs, and the steps that led to them.

Standard library only, so that every package may import it.
"""

import hashlib
from dataclasses import dataclass
from enum import StrEnum


class Language(StrEnum):
    """What a candidate's source is written in; it decides the backend."""

    CPP = "cpp"
    CUDA = "cu"


class Origin(StrEnum):
    """Why a step was taken."""

    SEED = "seed"
    QUESTION = "question"
    SWEEP = "sweep"
    HUMAN = "human"
    MERGED = "merged"
    """No step of this run: its evaluation came home from elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One source file with its launch plan.

    ``id`` is the SHA-256 of the exact bytes (the archive's identity); ``normal_id`` that of the normalised source
    (comments and white space outside the plan ignored), by which duplicates are recognised.
    Make one with ``population.novelty.candidate_of``.
    """

    id: str
    normal_id: str
    language: Language
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Knob:
    """A number in the plan that a tuner may turn.

    ``cases`` holds the ``when`` pairs (condition over scenario symbols, value), the first that holds wins;
    ``value`` is used where none holds; ``choices`` are the values that may be tried, in ascending order of the plan.
    """

    name: str
    value: int
    choices: tuple[int, ...]
    cases: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One proposal: an edge from a parent to a candidate, in the order of asking.

    A source that is proposed again is a new step to an old candidate. ``candidate_id`` is None where the answer was
    rejected or made no child. ``number`` counts from 0 over the whole run; ``id`` is a content hash.
    """

    number: int
    origin: Origin
    island: int
    parent_id: str | None
    candidate_id: str | None
    inspiration_ids: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """Content hash of the edge, 64 hexadecimal digits."""
        text = "\n".join(
            [
                str(self.number),
                self.origin,
                str(self.island),
                self.parent_id or "",
                self.candidate_id or "",
                *self.inspiration_ids,
            ]
        )
        return hash_text(text)


def hash_text(text: str) -> str:
    """SHA-256 of a text's UTF-8 bytes (lone surrogates kept), 64 hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def short_id(full_id: str) -> str:
    """The first ten digits of an id, as people see and type it."""
    return full_id[:10]
