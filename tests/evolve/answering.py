"""Answers from outside, as people give them: to whichever open prompt, in whatever order, some of them unusable."""

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from evaluator.outcome import Fault
from evaluator.plan.knobs import knobs_of
from evaluator.plan.parse import parse_plan
from evolve.config import RunConfig
from evolve.desks import MailboxDesk
from evolve.parts import Parts
from mutators.answerers.base import Prompt
from mutators.answerers.knobs import KnobAnswerer
from mutators.question import Answer, Question
from population.candidate import Candidate, hash_text
from results.folder import holds_run
from results.mailbox import Mailbox
from results.reader import Reader
from tests.evolve.simulation import ShuffledExecutor, card, config

UNUSABLE = "I looked at the kernel for a while and it seems fine to me."


def mailbox_config(**tables: dict[str, object]) -> RunConfig:
    """The simulated run, answered through its mailbox."""
    budget = {"candidates": 16, **tables.get("budget", {})}
    return config(**{**tables, "budget": budget, "mutation": {"answerer": "mailbox", **tables.get("mutation", {})}})


def scripted(text: str, parent: Candidate, question: Question) -> Answer:
    """An answer that depends on the prompt alone: a turned knob, or in one case of eight nothing usable."""
    seed = int(hash_text(text)[:12], 16)
    if seed % 8 == 0:
        return Answer(text=UNUSABLE, answerer="script")
    plan = parse_plan(parent.source, parent.language, card())
    assert not isinstance(plan, Fault)
    prompt = Prompt(step_number=0, question=question, parent=parent, knobs=knobs_of(plan), children=(), lineage=(), text=text)
    return Answer(text=KnobAnswerer().answer(prompt, np.random.default_rng(seed)).text, answerer="script")


class Outside:
    """Somebody who now and then answers some of a run's open prompts, in an order drawn from ``seed``; ``in_order``: always the
    oldest alone.
    """

    def __init__(self, folder: Path, seed: int = 0, *, in_order: bool = False) -> None:
        self.answered: list[int] = []
        self._folder = folder
        self._in_order = in_order
        self._random = random.Random(seed)

    def __call__(self, *_: object) -> None:
        """Answer some prompts."""
        if not holds_run(self._folder):
            return
        mailbox = Mailbox(self._folder)
        with Reader.open(self._folder) as reader:
            done = mailbox.answered()
            left = [posed for posed in reader.open_steps() if posed.step.number not in done]
            chosen = left[:1] if self._in_order else self._random.sample(left, self._random.randint(0, len(left)))
            for posed in chosen:
                number, parent = posed.step.number, reader.candidate(posed.step.parent_id or "")
                if mailbox.put(number, scripted(reader.prompt(number), parent, posed.question)):
                    self.answered.append(number)


class Among(ShuffledExecutor):
    """A shuffled executor; while it evaluates, ``outside`` answers."""

    outside: Outside

    def collect(self, timeout_s: float) -> Sequence[object]:  # type: ignore[override]
        self.outside()
        return super().collect(timeout_s)


def answered_by(monkeypatch: pytest.MonkeyPatch, outside: Outside) -> None:
    """Have ``outside`` answer whenever a driver waits for an answer."""
    monkeypatch.setattr(Parts, "desk", lambda parts, mailbox, *_: MailboxDesk(mailbox, outside))
