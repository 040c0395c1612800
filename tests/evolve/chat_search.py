"""Whole simulated searches that a chat answerer answers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evolve.api import RunResult, resume, run
from mutators.question import Answer
from results.events import StepAsked
from results.mailbox import Mailbox
from results.reader import Reader
from tests.evolve.simulation import config, shuffled, stored


def answers(folder: Path) -> Sequence[Answer]:
    """Every answer of a run that was paid for, those included that no driver has taken in."""
    mailbox = Mailbox(folder)
    with Reader.open(folder) as reader:
        open_steps = [posed.step.number for posed in reader.open_steps()]
    taken = [step.answer for step in asked(folder)]
    return [answer for answer in (*taken, *map(mailbox.answer, open_steps)) if answer is not None]


def search(root: Path, chat: dict[str, Any], **budget: object) -> RunResult:
    """A simulated search that is answered as ``chat`` says, with evaluations in any order."""
    settings = config(
        budget={"candidates": 500, **budget},
        mutation={"answerer": "chat", "exhausted_after": 10_000},
        executor={"lookahead": 4},
        chat=chat,
    )
    return run(settings, root=root, executor=shuffled())


def go_on(folder: Path, *overrides: str) -> RunResult:
    """The resumption of a search."""
    return resume(folder, overrides, executor=shuffled())


def asked(folder: Path) -> Sequence[StepAsked]:
    """The steps of a run that a model answered."""
    return [event for event in stored(folder) if isinstance(event, StepAsked) and event.answer is not None]
