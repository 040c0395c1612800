"""What a call to a model may cost and did cost, in tokens and money."""

import math
from dataclasses import dataclass

from mutators.answerers.budget import Amounts
from mutators.question import Usage

BYTES_PER_TOKEN = 3.5
"""Of source code and English in the vocabularies of today's models; for our own estimate alone."""

MOST_BYTES_PER_TOKEN = 32
"""A reported count below this share of the text is no count."""

TEMPLATE_TOKENS = 512
"""Room for what a server puts around the prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """US dollars for a million tokens; None: not known."""

    prompt: float | None = None
    answer: float | None = None

    @property
    def known(self) -> bool:
        """Whether money can be counted."""
        return self.prompt is not None and self.answer is not None

    def usd(self, prompt_tokens: int, answer_tokens: int) -> float:
        """The price of a call, 0 where it isn't known."""
        if self.prompt is None or self.answer is None:
            return 0.0
        return (self.prompt * prompt_tokens + self.answer * answer_tokens) / 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one call cost; ``estimated``: not by the server's figures alone."""

    prompt_tokens: int = 0
    answer_tokens: int = 0
    usd: float = 0.0
    estimated: bool = False

    @property
    def amounts(self) -> Amounts:
        """The same as a ledger counts it."""
        return Amounts(tokens=self.prompt_tokens + self.answer_tokens, usd=self.usd)

    def plus(self, other: "Cost") -> "Cost":
        """Both calls together."""
        return Cost(
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            answer_tokens=self.answer_tokens + other.answer_tokens,
            usd=self.usd + other.usd,
            estimated=self.estimated or other.estimated,
        )

    def usage(self, wall_s: float) -> Usage:
        """The cost as an answer carries it."""
        return Usage(
            prompt_tokens=self.prompt_tokens,
            answer_tokens=self.answer_tokens,
            cost_usd=self.usd,
            wall_s=wall_s,
            estimated=self.estimated,
        )


def worst_cost(price: Price, prompt_bytes: int, max_answer_tokens: int) -> Cost:
    """The most that a call may cost: a token for each byte of the prompt (no vocabulary has shorter ones), and a whole answer."""
    prompt_tokens = prompt_bytes + TEMPLATE_TOKENS
    usd = price.usd(prompt_tokens, max_answer_tokens)
    return Cost(prompt_tokens=prompt_tokens, answer_tokens=max_answer_tokens, usd=usd, estimated=True)


def true_cost(price: Price, worst: Cost, reported: tuple[object, object], prompt_bytes: int, answer_bytes: int) -> Cost:
    """What a call cost, by the ``reported`` (prompt, answer) tokens where they can be true, else by our own estimate.

    A figure above the worst case counts as the worst case, so that nothing a server says takes spending past what was reserved.
    """
    prompt_tokens, own_prompt = _counted(reported[0], prompt_bytes, worst.prompt_tokens)
    answer_tokens, own_answer = _counted(reported[1], answer_bytes, worst.answer_tokens)
    return Cost(
        prompt_tokens=prompt_tokens,
        answer_tokens=answer_tokens,
        usd=price.usd(prompt_tokens, answer_tokens),
        estimated=own_prompt or own_answer,
    )


def _counted(reported: object, text_bytes: int, most: int) -> tuple[int, bool]:
    """Tokens, and whether they are our own count."""
    if isinstance(reported, int) and not isinstance(reported, bool):
        if reported > most:
            return most, True
        if reported >= 0 and reported * MOST_BYTES_PER_TOKEN >= text_bytes:
            return reported, False
    return min(most, math.ceil(text_bytes / BYTES_PER_TOKEN)), True
