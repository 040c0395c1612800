"""Who carries out evaluations: the same contract for Ray and for one process."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from evaluator.outcome import Outcome
from evaluator.request import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A finished evaluation; ``number`` is the one it was submitted under."""

    number: int
    outcome: Outcome


class Executor(Protocol):
    """Evaluates requests, several at once where it can, finishing in any order.

    A worker that dies is replaced and its request repeated (``attempt`` + 1) up to three times; then the outcome is
    HARNESS_FAULT. An evaluation that itself ends in HARNESS_FAULT is repeated once, by a new worker. A worker whose machine or
    GPU is unfit (``build`` raises EnvironmentUnfit) isn't asked again; its request goes to another one and stays unanswered
    where there is none.
    ``tests/contracts/executor.py`` holds the contract test.
    """

    def submit(self, number: int, request: Request) -> None:
        """Queue one evaluation under a number unique in this executor's life."""

    def collect(self, timeout_s: float) -> Sequence[Done]:
        """Evaluations finished since the last call; waits up to ``timeout_s`` for at least one, may return none.

        Raises EnvironmentUnfit where no worker is left that could finish any.
        """

    def close(self) -> None:
        """Drop what is queued and stop every worker."""
