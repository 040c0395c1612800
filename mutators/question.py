"""Shared vocabulary of the mutators: moments, questions, answers and why an answer may be rejected.

Standard library only, so that every package may import it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

FactValue = int | float | str | bool


class Moment(StrEnum):
    """The situation in which a question is asked."""

    ROUTINE = "routine"
    STALL = "stall"
    CEILING_CLAIM = "ceiling_claim"
    DONE_CLAIM = "done_claim"
    SUSPICIOUS_WIN = "suspicious_win"
    REGRESSION = "regression"
    FAILURE = "failure"
    LOOP = "loop"


class Layer(StrEnum):
    """The part of the system that a question looks at."""

    ALGORITHM = "algorithm"
    SCHEDULE = "schedule"
    MEMORY = "memory"
    INSTRUCTION = "instruction"
    NUMERICS = "numerics"
    LAUNCH = "launch"
    PLAN = "plan"
    MEASUREMENT = "measurement"


class Claim(StrEnum):
    """What an answer says about the limit."""

    NONE = "none"
    CEILING = "ceiling"
    DONE = "done"


class Rejection(StrEnum):
    """Why an answer made no candidate. Closed; each is documented in docs/verdicts.md."""

    NO_CODE = "no_code"
    TRUNCATED = "truncated"
    NO_MATCH = "no_match"
    AMBIGUOUS = "ambiguous"
    NO_CHANGE = "no_change"
    HEADER_MISSING = "header_missing"
    HEADER_INVALID = "header_invalid"
    TOO_LARGE = "too_large"
    OUTSIDE_EDITABLE = "outside_editable"
    CLAIM_ONLY = "claim_only"
    EXHAUSTED = "exhausted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question as it was put, its slots filled.

    ``entry_id`` names the bank entry ("human" where a person asked); ``id`` is the content hash of entry and text.
    ``facts`` are the measured values that filled the slots; ``settle`` says how the harness would decide the matter.
    ``told`` is what people only told the answerer, along with this question.
    """

    id: str
    entry_id: str
    layer: Layer
    moment: Moment
    text: str
    settle: str
    facts: Mapping[str, FactValue] = field(default_factory=dict)
    told: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What an answer cost, calls that failed before it included.

    Tokens are as the server reported them; ``estimated``: for at least one call it reported none or figures that can't be, and
    they are our own estimate. Nothing was counted where there was no server.
    """

    prompt_tokens: int = 0
    answer_tokens: int = 0
    cost_usd: float = 0.0
    wall_s: float = 0.0
    estimated: bool = False

    def plus(self, other: "Usage") -> "Usage":
        """Both together."""
        return Usage(
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            answer_tokens=self.answer_tokens + other.answer_tokens,
            cost_usd=self.cost_usd + other.cost_usd,
            wall_s=self.wall_s + other.wall_s,
            estimated=self.estimated or other.estimated,
        )

    @property
    def paid(self) -> bool:
        """Whether it cost tokens or money."""
        return bool(self.prompt_tokens or self.answer_tokens or self.cost_usd)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """An answer that made no candidate: why, in one sentence what to do, and the nearest lines where that helps."""

    reason: Rejection
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstTurn:
    """An answer, as it came, that was sent back once, and why."""

    text: str
    rejected: Rejected


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a mutator said.

    ``text`` is the raw answer (header between ``+++`` lines, then an edit), as it came; ``answerer`` names who gave it, ``model``
    the language model behind it ("" where there was none or nobody knows). ``first``: the answer that was sent back before this
    one; ``usage`` counts both.
    """

    text: str
    answerer: str
    model: str = ""
    usage: Usage = field(default_factory=Usage)
    first: FirstTurn | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The answer's own statement: one-sentence hypothesis, expected ratio to the parent by region (or ``all``), claim."""

    hypothesis: str
    prediction: Mapping[str, float] = field(default_factory=dict)
    claim: Claim = Claim.NONE
