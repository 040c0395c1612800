"""When to stop asking a server that fails again and again."""

import threading


class Breaker:
    """Open once ``limit`` calls in a row, from all threads together, failed for reasons that lie with the server.

    An open breaker stays open for the life of the answerer: who resumes the run later starts with a closed one.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._failures = 0
        self._why = ""

    @property
    def why(self) -> str:
        """What opened it, "" while it is closed."""
        with self._lock:
            return self._why

    def succeeded(self) -> None:
        """A call came through: counting starts again."""
        with self._lock:
            self._failures = 0

    def failed(self, what: str, *, at_once: bool = False) -> None:
        """A call failed; with ``at_once`` this one is enough."""
        with self._lock:
            self._failures += 1
            if not self._why and (at_once or self._failures >= self._limit):
                count = "1 call" if self._failures == 1 else f"{self._failures} calls in a row"
                self._why = f"{count} failed, the last with: {what}"
