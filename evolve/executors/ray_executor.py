"""Evaluation spread over Ray actors: a local Ray that starts by itself, or a cluster by address."""

import contextlib
import logging
import os
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import ray
from ray.exceptions import RayError

from evaluator.outcome import Outcome
from evaluator.request import Evaluator, Request
from evolve.executors.base import Done
from evolve.executors.fault import ATTEMPTS, harness_fault
from evolve.executors.worker import Worker

_OBJECT_STORE_BYTES = 80 * 2**20  # requests and outcomes are kilobytes; Ray's own minimum is 75 MiB


class _Actor:
    """One evaluator on some machine, in a process below the actor's own."""

    def __init__(self, build: Callable[[], Evaluator]) -> None:
        self._worker = Worker(build)

    def evaluate(self, request: Request) -> Outcome:
        return self._worker.evaluate(request)

    def close(self) -> None:
        self._worker.close()


class RayExecutor:
    """Keeps ``workers`` actors busy from one queue, oldest request first; a dead actor is replaced.

    ``build`` makes an evaluator and is sent to the actors: it must pickle small and hold no live object. Ray is started on this
    machine where ``address`` is None and none runs in this process, and then stopped on ``close``.
    """

    def __init__(self, build: Callable[[], Evaluator], *, workers: int, address: str | None = None) -> None:
        self._owns_ray = not ray.is_initialized()
        if self._owns_ray:
            _start_ray(workers, address)
        cpus = int(ray.cluster_resources().get("CPU", 0))
        if cpus < workers:
            self.close()
            raise ValueError(
                f"[executor] workers = {workers}, but Ray has {cpus} CPUs; lower workers, or `ray start` with more --num-cpus"
            )
        self._build = build
        self._idle: list[Any] = []
        self._missing = workers  # actors are made when first needed
        self._queue: deque[tuple[int, Request, int]] = deque()  # number, request, attempts already made
        self._running: dict[Any, tuple[Any, int, Request, int]] = {}

    def submit(self, number: int, request: Request) -> None:
        """Queue one evaluation; it starts at once where an actor is free."""
        self._queue.append((number, request, 0))
        self._dispatch()

    def collect(self, timeout_s: float) -> Sequence[Done]:
        """Evaluations finished since the last call, waiting up to ``timeout_s`` for the first."""
        self._dispatch()
        if not self._running:
            return ()
        ready, _ = ray.wait(list(self._running), num_returns=1, timeout=timeout_s)
        if ready:
            ready, _ = ray.wait(list(self._running), num_returns=len(self._running), timeout=0)
        done = [finished for reference in ready if (finished := self._settle(reference)) is not None]
        self._dispatch()
        return done

    def close(self) -> None:
        """Drop what is queued, stop every actor with its processes, and Ray where this executor started it."""
        for actor in getattr(self, "_idle", []):
            with contextlib.suppress(RayError):
                ray.get(actor.close.remote(), timeout=10)
            ray.kill(actor)
        for actor, *_ in getattr(self, "_running", {}).values():
            ray.kill(actor)
        self._idle, self._running, self._queue = [], {}, deque()
        if self._owns_ray and ray.is_initialized():
            ray.shutdown()

    def _dispatch(self) -> None:
        while self._queue and (self._idle or self._missing):
            number, request, attempts = self._queue.popleft()
            actor = self._idle.pop() if self._idle else self._hire()
            reference = actor.evaluate.remote(replace(request, attempt=request.attempt + attempts))
            self._running[reference] = (actor, number, request, attempts)

    def _hire(self) -> Any:
        self._missing -= 1
        return ray.remote(num_cpus=1, max_restarts=0)(_Actor).remote(self._build)

    def _settle(self, reference: Any) -> Done | None:
        """The result behind a finished reference; None where its worker died and the request went back to the queue's head."""
        actor, number, request, attempts = self._running.pop(reference)
        try:
            outcome = ray.get(reference)
        except RayError as error:
            ray.kill(actor)
            self._missing += 1
            if attempts + 1 < ATTEMPTS:
                self._queue.appendleft((number, request, attempts + 1))
                return None
            return Done(number=number, outcome=harness_fault(request, str(error).strip().splitlines()[-1]))
        self._idle.append(actor)
        return Done(number=number, outcome=outcome)


def _start_ray(workers: int, address: str | None) -> None:
    """Join the cluster at ``address``, or start a small quiet Ray of ``workers`` CPUs here that reports to nobody."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")  # results that nobody waits for any more
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": True}
    if address is not None:
        ray.init(address=address, **quiet)
    else:
        ray.init(num_cpus=workers, include_dashboard=False, object_store_memory=_OBJECT_STORE_BYTES, **quiet)
