"""Evaluation spread over Ray actors: a local Ray that starts by itself, or a cluster by address."""

import contextlib
import logging
import os
import socket
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import psutil
import ray
from ray.exceptions import RayError, RayTaskError

from evaluator.outcome import Outcome
from evaluator.request import Evaluator, Request
from evolve.errors import EnvironmentUnfit
from evolve.executors.ahead import Ahead, Job
from evolve.executors.base import Done
from evolve.executors.fault import ATTEMPTS, harness_fault, to_be_repeated
from evolve.executors.worker import Worker

_OBJECT_STORE_BYTES = 80 * 2**20  # requests and outcomes are kilobytes; Ray's own minimum is 75 MiB
_KNOCK_S = 10.0
_ADVICE_HERE = (
    "Ray keeps its files in RAY_TMPDIR, TMPDIR or /tmp: a short path with free space, please; "
    '[executor] kind = "inline" does without Ray'
)
_ADVICE_THERE = "Start it there with `ray start --head`, or leave [executor] ray_address out for a Ray of this machine alone"
_SERVERS = ("raylet", "gcs_server")


class _Actor:
    """One evaluator on some machine, in a process below the actor's own."""

    def __init__(self, build: Callable[[], Evaluator], deadline_s: float | None) -> None:
        self._worker = Worker(build, deadline_s)

    def evaluate(self, request: Request) -> Outcome:
        return self._worker.evaluate(request)

    def close(self) -> None:
        self._worker.close()


class RayExecutor:
    """Keeps ``workers`` actors busy from one queue, oldest request first; a dead actor is replaced.

    ``build`` makes an evaluator and is sent to the actors: it must pickle small and hold no live object. Ray is started on this
    machine where ``address`` is None and none runs in this process, and then stopped on ``close``. A worker that gives no answer
    within ``deadline_s`` seconds counts as dead. With ``gpus`` each actor has one GPU to itself, which Ray shows it alone. Jobs
    of ``ahead`` are tasks of one CPU each. Raises EnvironmentUnfit where Ray can't be started or reached, ValueError where it has
    fewer CPUs or GPUs than ``workers``. An actor whose environment is unfit keeps its GPU, so that Ray gives it to nobody else,
    and isn't asked again.
    """

    def __init__(
        self,
        build: Callable[[], Evaluator],
        *,
        workers: int,
        address: str | None = None,
        deadline_s: float | None = None,
        gpus: bool = False,
        ahead: Ahead | None = None,
    ) -> None:
        self._owns_ray = not ray.is_initialized()
        self._servers = _start_ray(workers + (ahead.workers if ahead else 0), address) if self._owns_ray else ()
        for kind in ("CPU", "GPU") if gpus else ("CPU",):
            there = int(ray.cluster_resources().get(kind, 0))
            if there < workers:
                self.close()
                more = f"--num-{kind.lower()}s"
                raise ValueError(
                    f"workers = {workers}, but Ray has {there} {kind}s; lower workers, or `ray start` with more {more}"
                )
        self._build, self._deadline_s, self._ahead = build, deadline_s, ahead
        self._task = ray.remote(num_cpus=1, max_retries=0)(_do)
        self._needs: dict[str, int] = {"num_cpus": 1, "max_restarts": 0} | ({"num_gpus": 1} if gpus else {})
        self._idle: list[Any] = []
        self._retired: list[Any] = []
        self._unfit = ""
        self._missing = workers  # actors are made when first needed
        self._queue: deque[tuple[int, Request, int]] = deque()  # number, request, attempts already made
        self._running: dict[Any, tuple[Any, int, Request, int]] = {}

    def submit(self, number: int, request: Request) -> None:
        """Queue one evaluation; it starts at once where an actor is free."""
        for job in self._ahead.jobs(request) if self._ahead else ():
            self._task.remote(job)
        self._queue.append((number, request, 0))
        self._dispatch()

    def collect(self, timeout_s: float) -> Sequence[Done]:
        """Evaluations finished since the last call, waiting up to ``timeout_s`` for the first.

        Raises EnvironmentUnfit where the Ray that was started here has died, which would let everything wait for ever, and where
        no fit actor is left.
        """
        for server in self._servers:
            if not _is_alive(server):
                raise EnvironmentUnfit(
                    f"Ray's own process {server.pid} died (killed, or out of memory?); nothing stored is lost, "
                    "`askevolve resume` goes on with the run"
                )
        self._dispatch()
        if not self._running:
            if self._queue:
                raise EnvironmentUnfit(self._unfit)
            return ()
        ready, _ = ray.wait(list(self._running), num_returns=1, timeout=timeout_s)
        if ready:
            ready, _ = ray.wait(list(self._running), num_returns=len(self._running), timeout=0)
        done = [finished for reference in ready if (finished := self._settle(reference)) is not None]
        self._dispatch()
        return done

    def close(self) -> None:
        """Drop what is queued, stop every actor with its processes, and Ray where this executor started it."""
        leftovers: list[psutil.Process] = []
        if not all(map(_is_alive, self._servers)):
            leftovers = _below(self._servers)  # its agents would look for their dead server for a minute
        else:
            for actor in [*getattr(self, "_idle", []), *getattr(self, "_retired", [])]:
                with contextlib.suppress(RayError):
                    ray.get(actor.close.remote(), timeout=10)
                ray.kill(actor)
            for actor, *_ in getattr(self, "_running", {}).values():
                ray.kill(actor)
        self._idle, self._retired, self._running, self._queue = [], [], {}, deque()
        if self._owns_ray and ray.is_initialized():
            ray.shutdown()
        for process in leftovers:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()

    def _dispatch(self) -> None:
        while self._queue and (self._idle or self._missing):
            number, request, attempts = self._queue.popleft()
            actor = self._idle.pop() if self._idle else self._hire()
            reference = actor.evaluate.remote(replace(request, attempt=request.attempt + attempts))
            self._running[reference] = (actor, number, request, attempts)

    def _hire(self) -> Any:
        self._missing -= 1
        return ray.remote(**self._needs)(_Actor).remote(self._build, self._deadline_s)

    def _settle(self, reference: Any) -> Done | None:
        """The result behind a finished reference; None where its worker died and the request went back to the queue's head."""
        actor, number, request, attempts = self._running.pop(reference)
        try:
            outcome, died = ray.get(reference), False
        except EnvironmentUnfit as error:
            self._unfit = str(error.cause if isinstance(error, RayTaskError) else error)
            self._retired.append(actor)
            self._queue.appendleft((number, request, attempts))
            return None
        except RayError as error:
            outcome, died = harness_fault(request, str(error).strip().splitlines()[-1]), True
        again = attempts + 1 < ATTEMPTS if died else to_be_repeated(outcome, attempts + 1)
        if died or again:
            ray.kill(actor)
            self._missing += 1
        else:
            self._idle.append(actor)
        if again:
            self._queue.appendleft((number, request, attempts + 1))
            return None
        return Done(number=number, outcome=outcome)


def _do(job: Job) -> None:
    """A job as a task of Ray's."""
    job()


def _is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _below(servers: Sequence[psutil.Process]) -> list[psutil.Process]:
    found: list[psutil.Process] = []
    for server in servers:
        with contextlib.suppress(psutil.NoSuchProcess):
            found += server.children(recursive=True)
    return found


def _start_ray(cpus: int, address: str | None) -> Sequence[psutil.Process]:
    """Join the cluster at ``address``, or start a small quiet Ray of ``cpus`` CPUs here that reports to nobody.

    Returns the servers without which a Ray that was started here doesn't work.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")  # results that nobody waits for any more
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": True}
    try:
        if address is not None:
            _knock(address)
            ray.init(address=address, **quiet)
        else:  # "local" by name, or Ray would join whatever RAY_ADDRESS names
            ray.init("local", num_cpus=cpus, include_dashboard=False, object_store_memory=_OBJECT_STORE_BYTES, **quiet)
    except Exception as error:
        ray.shutdown()
        what = "started here" if address is None else f"reached at {address}"
        advice = _ADVICE_HERE if address is None else _ADVICE_THERE
        raise EnvironmentUnfit(f"Ray can't be {what} ({type(error).__name__}: {error}). {advice}") from error
    return [child for child in psutil.Process().children() if child.name() in _SERVERS] if address is None else ()


def _knock(address: str) -> None:
    """Raise OSError where nobody listens at HOST:PORT: Ray itself would try for minutes."""
    host, colon, port = address.rpartition(":")
    if colon and port.isdigit() and "/" not in host:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_KNOCK_S).close()
