"""Evaluation in several processes of this host without Ray: one for each GPU, or for a few cores each."""

import itertools
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from evaluator.request import Evaluator, Request
from evolve.errors import EnvironmentUnfit
from evolve.executors.ahead import Ahead, AheadPool
from evolve.executors.base import Done
from evolve.executors.fault import ATTEMPTS, harness_fault, to_be_repeated
from evolve.executors.worker import Worker, WorkerDiedError

_Queued = tuple[float, int, Request | None, int]
"""Turn, number, request (None ends the thread that takes it), attempts already made. No two have one turn."""


class ProcessExecutor:
    """Keeps one worker process for each of ``environments`` busy from one queue, oldest request first.

    ``environments`` holds the variables that a worker gets on top of this process's own, such as the GPU that it may see.
    ``build`` makes an evaluator in the worker: it must pickle. A worker that dies, or gives no answer within ``deadline_s``
    seconds, is replaced; one whose environment is unfit, such as a quarantined GPU, isn't.
    """

    def __init__(
        self,
        build: Callable[[], Evaluator],
        *,
        environments: Sequence[Mapping[str, str]],
        deadline_s: float | None = None,
        ahead: Ahead | None = None,
    ) -> None:
        self._build, self._deadline_s = build, deadline_s
        self._ahead = AheadPool(ahead) if ahead else None
        self._queue: queue.PriorityQueue[_Queued] = queue.PriorityQueue()
        self._turns = itertools.count()
        self._unfit: list[EnvironmentUnfit] = []
        """Why each place that was given up was."""
        self._done: queue.SimpleQueue[Done] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._workers: list[Worker | None] = [None] * len(environments)
        self._threads = [
            threading.Thread(target=self._serve, args=(place, environment), name=f"worker {place}", daemon=True)
            for place, environment in enumerate(environments)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, number: int, request: Request) -> None:
        """Queue one evaluation; it starts at once where a worker is free."""
        if self._ahead is not None:
            self._ahead.prepare(request)
        self._queue.put((next(self._turns), number, request, 0))

    def collect(self, timeout_s: float) -> Sequence[Done]:
        """Evaluations finished since the last call, waiting up to ``timeout_s`` for the first.

        Raises EnvironmentUnfit, with the reason of the last, where every place was given up.
        """
        gone = len(self._unfit) == len(self._threads)
        done: list[Done] = []
        try:
            done.append(self._done.get(timeout=timeout_s))
            while True:
                done.append(self._done.get_nowait())
        except queue.Empty:
            if gone and not done and not self._closing.is_set():
                raise self._unfit[-1] from None
            return done

    def close(self) -> None:
        """Drop what is queued and what is done, stop every worker with its processes. Safe to call twice."""
        self._closing.set()
        for _ in self._threads:
            self._queue.put((-1 - next(self._turns), 0, None, 0))
        with self._lock:
            workers = [worker for worker in self._workers if worker is not None]
        for worker in workers:
            worker.close()
        for thread in self._threads:
            thread.join()
        if self._ahead is not None:
            self._ahead.close()
        self._done = queue.SimpleQueue()

    def _serve(self, place: int, environment: Mapping[str, str]) -> None:
        """Evaluate what is queued until the executor closes, or until this place proves unfit and leaves the rest to others."""
        while not self._closing.is_set():
            turn, number, request, made = self._queue.get()
            worker = self._worker(place, environment) if request is not None else None
            if request is None or worker is None:
                return
            try:
                outcome = worker.evaluate(replace(request, attempt=request.attempt + made))
                broken = again = to_be_repeated(outcome, made + 1)
            except WorkerDiedError as error:
                outcome, broken, again = harness_fault(request, str(error)), True, made + 1 < ATTEMPTS
            except EnvironmentUnfit as unfit:
                self._workers[place] = None
                self._queue.put((turn, number, request, made))
                self._unfit.append(unfit)
                return
            if broken:
                worker.close()
                self._workers[place] = None
            if again:
                self._queue.put((turn, number, request, made + 1))
            else:
                self._done.put(Done(number=number, outcome=outcome))

    def _worker(self, place: int, environment: Mapping[str, str]) -> Worker | None:
        """This place's worker, hired where there is none; None once the executor closes."""
        with self._lock:
            if self._closing.is_set():
                return None
            worker = self._workers[place] or Worker(self._build, self._deadline_s, environment)
            self._workers[place] = worker
            return worker
