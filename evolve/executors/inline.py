"""Evaluation in this process, one request at a time: tests, small machines, hosts without Ray."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from evaluator.outcome import Outcome
from evaluator.request import Evaluator, Request
from evolve.errors import EnvironmentUnfit
from evolve.executors.ahead import Ahead, AheadPool
from evolve.executors.base import Done
from evolve.executors.fault import ATTEMPTS, harness_fault, to_be_repeated


class InlineExecutor:
    """Evaluates the oldest request on ``collect``, in the caller's thread; a running evaluation isn't cut short.

    An evaluator that raises counts as a dead worker: it is closed, built anew, and the request repeated; so, once, one that
    answers with a fault of the harness.
    """

    def __init__(self, build: Callable[[], Evaluator], ahead: Ahead | None = None) -> None:
        self._build = build
        self._ahead = AheadPool(ahead) if ahead else None
        self._evaluator: Evaluator | None = None
        self._queue: deque[tuple[int, Request]] = deque()

    def submit(self, number: int, request: Request) -> None:
        """Queue one evaluation."""
        if self._ahead is not None:
            self._ahead.prepare(request)
        self._queue.append((number, request))

    def collect(self, timeout_s: float) -> Sequence[Done]:
        """The outcome of the oldest queued request, nothing where none is queued. ``timeout_s`` can't shorten an evaluation.

        Raises EnvironmentUnfit as the evaluator's builder does; the request stays queued.
        """
        if not self._queue:
            return ()
        number, request = self._queue[0]
        outcome = self._evaluate(request)
        self._queue.popleft()
        return (Done(number=number, outcome=outcome),)

    def close(self) -> None:
        """Drop what is queued and stop the evaluator's processes."""
        self._queue.clear()
        if self._ahead is not None:
            self._ahead.close()
        self._stop()

    def _evaluate(self, request: Request) -> Outcome:
        for attempts in range(ATTEMPTS):
            try:
                if self._evaluator is None:
                    self._evaluator = self._build()
                outcome = self._evaluator.evaluate(replace(request, attempt=request.attempt + attempts))
                if not to_be_repeated(outcome, attempts + 1):
                    return outcome
            except EnvironmentUnfit:
                raise
            except Exception as error:
                outcome = harness_fault(request, f"{type(error).__name__}: {error}")
            self._stop()
        return outcome

    def _stop(self) -> None:
        broken, self._evaluator = self._evaluator, None
        if broken is not None:
            broken.close()
