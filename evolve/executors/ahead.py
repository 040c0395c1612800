"""Work on a request that can be done before it is evaluated, such as compiling: spread over CPUs while a device evaluates."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from evaluator.request import Request

Job = Callable[[], object]
"""One piece of work whose result lies where the evaluator finds it; it must pickle. What fails fails again in the evaluation,
which says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ahead:
    """``jobs`` gives what can be done for a request, ``workers`` how many jobs may run at once."""

    jobs: Callable[[Request], Sequence[Job]]
    workers: int


class AheadPool:
    """Does the jobs of requests on threads of this process: each of them waits for a child of its own."""

    def __init__(self, ahead: Ahead) -> None:
        self._ahead = ahead
        self._threads = ThreadPoolExecutor(max_workers=ahead.workers, thread_name_prefix="ahead")

    def prepare(self, request: Request) -> None:
        """Queue the jobs of a request."""
        for job in self._ahead.jobs(request):
            self._threads.submit(job)

    def finish(self) -> None:
        """Wait for every job that is queued."""
        self._threads.shutdown(wait=True)

    def close(self) -> None:
        """Drop what is queued and wait for what has begun."""
        self._threads.shutdown(wait=True, cancel_futures=True)
