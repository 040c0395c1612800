"""No evaluation here: what is asked stays open in the run's store, for a machine that has the device."""

from collections.abc import Sequence

from evaluator.request import Request
from evolve.executors.ahead import Ahead, AheadPool
from evolve.executors.base import Done


class Elsewhere:
    """Never finishes an evaluation; does what can be done ahead, and has done all of it when it is closed."""

    def __init__(self, ahead: Ahead | None = None) -> None:
        self._ahead = AheadPool(ahead) if ahead else None

    def submit(self, number: int, request: Request) -> None:
        """Do ahead what the request allows."""
        if self._ahead is not None:
            self._ahead.prepare(request)

    def collect(self, timeout_s: float) -> Sequence[Done]:
        """Nothing, at once."""
        return ()

    def close(self) -> None:
        """Wait for the work ahead. Safe to call twice."""
        if self._ahead is not None:
            self._ahead.finish()
