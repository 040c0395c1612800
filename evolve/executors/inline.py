"""Evaluation in this process, one request at a time: tests, small machines, hosts without Ray."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from evaluator.outcome import Outcome
from evaluator.request import Evaluator, Request
from evolve.executors.base import Done
from evolve.executors.fault import ATTEMPTS, harness_fault


class InlineExecutor:
    """Evaluates the oldest request on ``collect``, in the caller's thread; a running evaluation isn't cut short.

    An evaluator that raises counts as a dead worker: it is closed, built anew, and the request repeated.
    """

    def __init__(self, build: Callable[[], Evaluator]) -> None:
        self._build = build
        self._evaluator: Evaluator | None = None
        self._queue: deque[tuple[int, Request]] = deque()

    def submit(self, number: int, request: Request) -> None:
        """Queue one evaluation."""
        self._queue.append((number, request))

    def collect(self, timeout_s: float) -> Sequence[Done]:
        """The outcome of the oldest queued request, nothing where none is queued. ``timeout_s`` can't shorten an evaluation."""
        if not self._queue:
            return ()
        number, request = self._queue[0]
        outcome = self._evaluate(request)
        self._queue.popleft()
        return (Done(number=number, outcome=outcome),)

    def close(self) -> None:
        """Drop what is queued and stop the evaluator's processes."""
        self._queue.clear()
        if self._evaluator is not None:
            self._evaluator.close()
            self._evaluator = None

    def _evaluate(self, request: Request) -> Outcome:
        for attempt in range(request.attempt, request.attempt + ATTEMPTS):
            try:
                if self._evaluator is None:
                    self._evaluator = self._build()
                return self._evaluator.evaluate(replace(request, attempt=attempt))
            except Exception as error:
                reason = f"{type(error).__name__}: {error}"
                broken, self._evaluator = self._evaluator, None
                if broken is not None:
                    broken.close()
        return harness_fault(request, reason)
