"""Where open prompts wait for their answers: with an answerer in this process, in its threads, or in the run's mailbox."""

import contextlib
import queue
import threading
import time
from collections.abc import Callable
from typing import Protocol

import numpy as np

from evolve.errors import AnswererFailed
from mutators.answerers.base import Answerer, Prompt, SlowAnswerer
from mutators.answerers.failures import BudgetSpent, Unanswered
from mutators.question import Answer, Usage
from mutators.repair import second_turn
from results.mailbox import Mailbox

_Queued = tuple[Prompt, np.random.Generator] | None
"""A prompt with its step's stream; None ends the thread that takes it."""


class Desk(Protocol):
    """Takes open prompts and gives their answers; those of different steps may come in any order.

    ``outside``: answers come from outside this process, so that waiting for one may take days.
    """

    outside: bool

    def put(self, prompt: Prompt, rng: np.random.Generator) -> None:
        """Have a prompt answered. ``rng`` is the step's own stream."""

    def take(self, number: int) -> Answer | None:
        """The answer to a step whose prompt was put, None while it isn't there.

        Where it isn't there, raises AnswererFailed if an answerer gave up on any of the prompts, BudgetSpent if a budget didn't
        pay for a call.
        """

    def wait(self, timeout_s: float) -> None:
        """Wait until something may have come, at most so long."""

    def close(self) -> Usage:
        """What calls cost that gave no answer. What is under way is finished first, and its answers are kept."""


class OwnDesk:
    """Has an answerer that takes no time answer in the caller's thread, when the answer is taken."""

    outside = False

    def __init__(self, answerer: Answerer, mailbox: Mailbox) -> None:
        self._answerer = answerer
        self._mailbox = mailbox
        self._open: dict[int, tuple[Prompt, np.random.Generator]] = {}

    def put(self, prompt: Prompt, rng: np.random.Generator) -> None:
        """Keep a prompt until its answer is wanted."""
        self._open[prompt.step_number] = (prompt, rng)

    def take(self, number: int) -> Answer:
        """The answer, made now unless the mailbox holds one. Raises AnswererFailed."""
        prompt, rng = self._open.pop(number)
        try:
            return self._mailbox.answer(number) or self._answerer.answer(prompt, rng)
        except Exception as error:
            raise _failed(self._answerer, number, error) from error

    def wait(self, timeout_s: float) -> None:
        """Nothing: every answer is there when it is asked for."""

    def close(self) -> Usage:
        """Nothing: no call is under way, and none failed that cost anything."""
        return Usage()


class ThreadDesk:
    """Has an answerer answer in ``concurrency`` threads, in two turns where the first answer is rejected by mistake.

    An answer goes into the mailbox as soon as it is seen to have come, so that what was paid for outlives a driver that is killed
    before it is taken in.
    """

    outside = False

    def __init__(self, answerer: SlowAnswerer, mailbox: Mailbox, concurrency: int) -> None:
        self._answerer = answerer
        self._mailbox = mailbox
        self._queue: queue.SimpleQueue[_Queued] = queue.SimpleQueue()
        self._came: queue.SimpleQueue[tuple[int, Answer | Exception]] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._failed: AnswererFailed | BudgetSpent | None = None
        self._unanswered = Usage()
        self._threads = [
            threading.Thread(target=self._serve, name=f"answerer {place}", daemon=True) for place in range(concurrency)
        ]
        for thread in self._threads:
            thread.start()

    def put(self, prompt: Prompt, rng: np.random.Generator) -> None:
        """Have a prompt answered as soon as a thread is free, unless the mailbox holds an answer or the answerer failed."""
        if self._failed is None and prompt.step_number not in self._mailbox.answered():
            self._queue.put((prompt, rng))

    def take(self, number: int) -> Answer | None:
        """The answer if it has come. Else raises AnswererFailed or BudgetSpent, also for a failure at another step."""
        self.wait(0.0)
        answer = self._mailbox.answer(number)
        if answer is None and self._failed is not None:
            raise self._failed
        return answer

    def wait(self, timeout_s: float) -> None:
        """Keep what has come, waiting up to ``timeout_s`` for the first."""
        with contextlib.suppress(queue.Empty):
            self._keep(*self._came.get(timeout=timeout_s))
            while True:
                self._keep(*self._came.get_nowait())

    def close(self) -> Usage:
        """What calls without an answer cost, told once. Answers that are being made are waited for and kept; prompts that no
        thread has begun stay open.
        """
        self._closing.set()
        self._answerer.close()
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()
        self.wait(0.0)
        unanswered, self._unanswered = self._unanswered, Usage()
        return unanswered

    def _keep(self, number: int, came: Answer | Exception) -> None:
        if isinstance(came, Answer):
            self._mailbox.put(number, came)
            return
        if isinstance(came, Unanswered):
            self._unanswered = self._unanswered.plus(came.usage)
        if self._failed is None:
            self._failed = came if isinstance(came, BudgetSpent) else _failed(self._answerer, number, came)

    def _serve(self) -> None:
        while (item := self._queue.get()) is not None:
            if self._closing.is_set():
                continue
            prompt, rng = item
            try:
                answer = self._answerer.answer(prompt, rng)
                if not self._closing.is_set():
                    answer = second_turn(self._answerer, prompt, answer, rng)
                self._came.put((prompt.step_number, answer))
            except Exception as error:
                self._came.put((prompt.step_number, error))


class MailboxDesk:
    """Leaves prompts where people and programs outside find them, and takes the answers that they hand in."""

    outside = True

    def __init__(self, mailbox: Mailbox, pause: Callable[[float], None] = time.sleep) -> None:
        self._mailbox = mailbox
        self._pause = pause

    def put(self, prompt: Prompt, rng: np.random.Generator) -> None:
        """Nothing: whoever answers reads the prompt from the run's store."""

    def take(self, number: int) -> Answer | None:
        """The answer if it was handed in."""
        return self._mailbox.answer(number)

    def wait(self, timeout_s: float) -> None:
        """Wait out the time; somebody may hand in an answer meanwhile."""
        self._pause(timeout_s)

    def close(self) -> Usage:
        """Nothing, since no call is made here."""
        return Usage()


def _failed(answerer: Answerer, number: int, error: Exception) -> AnswererFailed:
    """What an answerer says is the matter in its own words, anything else with its kind."""
    if isinstance(error, Unanswered):
        return AnswererFailed(f"step {number} got no answer: {error}")
    return AnswererFailed(f"the answerer {answerer.name} failed at step {number} ({type(error).__name__}: {error})")
