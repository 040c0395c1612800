"""Whole simulated searches that a chat answerer answers."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from evolve.api import RunResult, resume, run
from evolve.chat import chat_answerer, spent_on
from evolve.config_chat import ChatTable
from evolve.desks import ThreadDesk
from evolve.parts import Parts
from mutators.answerers.budget import Caps, Ledger
from mutators.question import Answer
from results.events import StepAsked
from results.mailbox import Mailbox
from tests.evolve.simulation import config, shuffled, stored


@contextmanager
def chatting(table: ChatTable, caps: Caps, key: str = "key of nobody") -> Iterator[list[Ledger]]:
    """Every search inside is answered as ``table`` says; the ledgers of its drivers, in turn."""
    ledgers: list[Ledger] = []

    def desk(parts: Parts, mailbox: Mailbox) -> ThreadDesk:
        ledgers.append(Ledger(caps, time.monotonic))
        ledgers[-1].restore(spent_on(answers(mailbox.folder)))
        answerer = chat_answerer(table, ledgers[-1], {"CHAT_KEY": key}, [].append)
        return ThreadDesk(answerer, mailbox, table.at_once)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Parts, "desk", desk)
        yield ledgers


def answers(folder: Path) -> Sequence[Answer]:
    """Every answer of a run that was paid for, those included that no driver has taken in."""
    from results.reader import Reader

    mailbox = Mailbox(folder)
    with Reader.open(folder) as reader:
        open_steps = [posed.step.number for posed in reader.open_steps()]
        taken = [reader.step(row.number).answer for row in reader.steps()]
    return [answer for answer in (*taken, *map(mailbox.answer, open_steps)) if answer is not None]


def search(root: Path, candidates: int = 500, resumed: Path | None = None) -> RunResult:
    """A simulated search, or the resumption of one, with evaluations in any order."""
    if resumed is not None:
        return resume(resumed, executor=shuffled())
    settings = config(budget={"candidates": candidates}, mutation={"exhausted_after": 10_000}, executor={"lookahead": 4})
    return run(settings, root=root, executor=shuffled())


def asked(folder: Path) -> Sequence[StepAsked]:
    """The steps of a run that a model answered."""
    return [event for event in stored(folder) if isinstance(event, StepAsked) and event.answer is not None]
