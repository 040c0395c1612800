"""A chat answerer with a fault-injecting server behind it, and a prompt to ask it."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mutators.answerers.base import Prompt
from mutators.answerers.budget import Caps, Ledger
from mutators.answerers.chat import ChatAnswerer, ChatSettings
from mutators.answerers.completion import Model
from mutators.answerers.usage import Price
from mutators.question import Answer, Layer, Moment, Question
from tests.mutators.chat_server import ChatServer, Play
from tests.mutators.factories import KNOBS, candidate

GOOD = '+++\nhypothesis = "x"\n+++\nint a;\n'
KEY = "sk-very-secret-4711"
PRICE = Price(prompt=2.0, answer=10.0)
TEXT = "## Question\n\n" + "What does the inner loop wait for? " * 8


def prompt(**changes: Any) -> Prompt:
    question = Question(id="q", entry_id="e", layer=Layer.MEMORY, moment=Moment.ROUTINE, text="?", settle="s")
    plain: dict[str, Any] = {
        "step_number": 3, "question": question, "parent": candidate(), "knobs": KNOBS, "children": (), "lineage": (),
        "text": TEXT,
    }  # fmt: skip
    return Prompt(**plain | changes)


class Asked:
    """An answerer with one fault-injecting server behind it; waits are noted, not slept."""

    def __init__(
        self,
        *plays: Play,
        caps: Caps | None = None,
        model: Mapping[str, Any] | None = None,
        step_s: float = 0.0,
        **settings: Any,
    ) -> None:
        self.server = ChatServer(*plays).__enter__()
        self.waits: list[float] = []
        self.notes: list[str] = []
        self.now_s, self.step_s = 0.0, step_s
        self.ledger = Ledger(caps or Caps(), self.clock)
        one = {"name": "m", "served_as": "tiny", "base_url": self.server.url, "key": KEY, "price": PRICE} | dict(model or {})
        plain: dict[str, Any] = {"models": (Model(**one),), "max_answer_tokens": 100, "stall_s": 0.3, "deadline_s": 5.0}
        self.answerer = ChatAnswerer(
            ChatSettings(**plain | settings), self.ledger, clock=self.clock, note=self.notes.append, sleep=self.waits.append
        )

    def clock(self) -> float:
        """Seconds; every look takes ``step_s``."""
        self.now_s += self.step_s
        return self.now_s

    def __call__(self, seed: int = 0) -> Answer:
        return self.answerer.answer(prompt(), np.random.default_rng(seed))

    def until_the_end(self) -> None:
        """Answers as long as there are any."""
        while True:
            self()

    def close(self) -> None:
        self.answerer.close()
        self.server.__exit__(None, None, None)


Open = Callable[..., Asked]
