"""Evaluation spread over Ray actors: a local Ray that starts by itself, or a cluster by address."""

import contextlib
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import psutil
import ray
from ray.exceptions import OutOfMemoryError, RayError, RayTaskError

from evaluator.outcome import Outcome
from evaluator.request import Evaluator, Request
from evolve.errors import EnvironmentUnfit
from evolve.executors.ahead import Ahead, Job
from evolve.executors.base import Done
from evolve.executors.fault import ATTEMPTS, harness_fault, to_be_repeated
from evolve.executors.ray_cluster import dead_nodes, has_several_nodes, start_ray
from evolve.executors.worker import Worker

GRACE_S = 20.0
"""So long a cluster may take to notice that a machine is gone; a worker's death within it is then the machine's."""

STARTS = 3
"""So many workers in a row that can't start end the run."""


class _Actor:
    """One evaluator on some machine, in a process below the actor's own."""

    def __init__(self, build: Callable[[], Evaluator], deadline_s: float | None) -> None:
        self._worker = Worker(build, deadline_s)

    def node(self) -> str:
        return str(ray.get_runtime_context().get_node_id())

    def evaluate(self, request: Request) -> Outcome:
        return self._worker.evaluate(request)

    def close(self) -> None:
        self._worker.close()


@dataclass(frozen=True, slots=True)
class _Job:
    """A request on its way; ``attempts`` were made already."""

    number: int
    request: Request
    attempts: int = 0


@dataclass(frozen=True, slots=True)
class _Lost:
    """A job whose worker vanished: with its machine, which is nobody's fault, or alone, which counts after ``until``."""

    job: _Job
    node: str
    reason: str
    until: float


class RayExecutor:
    """Keeps up to ``workers`` actors busy from one queue, oldest request first; a dead actor is replaced.

    In a cluster machines come and go: an actor that has no place yet holds no request, one whose machine is lost gives its
    request back without a word against the candidate, and what joins is used.

    ``build`` makes an evaluator and is sent to the actors: it must pickle small and hold no live object. Ray is started on this
    machine where ``address`` is None and none runs in this process, and then stopped on ``close``. A worker that gives no answer
    within ``deadline_s`` seconds counts as dead. With ``gpus`` each actor has one GPU to itself, which Ray shows it alone. Jobs
    of ``ahead`` are tasks of one CPU each. Raises EnvironmentUnfit where Ray can't be started or reached, ValueError where it has
    fewer CPUs or GPUs than ``workers``, or a cluster none at all. An actor whose environment is unfit keeps its GPU, so that Ray
    gives it to nobody else, and isn't asked again.
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
        self._idle: list[Any] = []
        self._retired: list[Any] = []
        self._starting: dict[Any, Any] = {}
        self._running: dict[Any, tuple[Any, _Job]] = {}
        self._owns_ray = not ray.is_initialized()
        self._servers = start_ray(workers + (ahead.workers if ahead else 0), address) if self._owns_ray else ()
        for kind in ("CPU", "GPU") if gpus else ("CPU",):
            there, least = int(ray.cluster_resources().get(kind, 0)), workers if address is None else 1
            if there < least:
                self.close()
                more = f"--num-{kind.lower()}s"
                raise ValueError(
                    f"workers = {workers}, but Ray has {there} {kind}s; lower workers, or `ray start` with more {more}"
                )
        self._build, self._deadline_s, self._ahead = build, deadline_s, ahead
        self._task = ray.remote(num_cpus=1, max_retries=0)(_do)
        self._needs: dict[str, int] = {"num_cpus": 1, "max_restarts": 0} | ({"num_gpus": 1} if gpus else {})
        self._nodes: dict[Any, str] = {}
        self._unfit = ""
        self._failed_starts = 0
        self._missing = workers  # actors are made when first needed
        self._queue: deque[_Job] = deque()
        self._lost: list[_Lost] = []

    @property
    def nodes(self) -> frozenset[str]:
        """Ids of the machines on which actors are at work."""
        return frozenset(self._nodes.values())

    def submit(self, number: int, request: Request) -> None:
        """Queue one evaluation; it starts at once where an actor is free, else when ``collect`` finds one."""
        for job in self._ahead.jobs(request) if self._ahead else ():
            self._task.remote(job)
        self._queue.append(_Job(number, request))
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
        done = self._reclaim()
        self._dispatch()
        waiting = [*self._running, *self._starting]
        if not waiting:
            if self._lost and not done:
                time.sleep(min(timeout_s, 1.0))
            elif self._queue and not done:
                raise EnvironmentUnfit(self._unfit)
            return done
        ready, _ = ray.wait(waiting, num_returns=1, timeout=0 if done else timeout_s)
        if ready:
            ready, _ = ray.wait(waiting, num_returns=len(waiting), timeout=0)
        for reference in ready:
            if reference in self._starting:
                self._arrive(reference)
            elif (finished := self._settle(reference)) is not None:
                done.append(finished)
        self._dispatch()
        return done

    def close(self) -> None:
        """Drop what is queued, stop every actor with its processes, and Ray where this executor started it."""
        leftovers: list[psutil.Process] = []
        if not all(map(_is_alive, self._servers)):
            leftovers = _below(self._servers)  # its agents would look for their dead server for a minute
        else:
            for actor in [*self._idle, *self._retired]:
                with contextlib.suppress(RayError):
                    ray.get(actor.close.remote(), timeout=10)
                ray.kill(actor)
            for actor in [*self._starting.values(), *(actor for actor, _ in self._running.values())]:
                ray.kill(actor)
        self._idle, self._retired, self._starting, self._running, self._queue = [], [], {}, {}, deque()
        if self._owns_ray and ray.is_initialized():
            ray.shutdown()
        for process in leftovers:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()

    def _dispatch(self) -> None:
        """Give the idle their requests, and hire for those that are left."""
        while self._queue and self._idle:
            actor, job = self._idle.pop(), self._queue.popleft()
            request = replace(job.request, attempt=job.request.attempt + job.attempts)
            self._running[actor.evaluate.remote(request)] = (actor, job)
        for _ in range(min(self._missing, len(self._queue) - len(self._starting))):
            self._missing -= 1
            actor = ray.remote(**self._needs)(_Actor).remote(self._build, self._deadline_s)
            self._starting[actor.node.remote()] = actor

    def _arrive(self, reference: Any) -> None:
        """Take an actor into service. Raises EnvironmentUnfit where one after the other fails to start."""
        actor = self._starting.pop(reference)
        try:
            self._nodes[actor] = ray.get(reference)
        except RayError as error:
            self._missing += 1
            self._failed_starts += 1
            if self._failed_starts >= STARTS:
                raise EnvironmentUnfit(f"workers can't start under Ray: {str(error).strip().splitlines()[-1]}") from None
            return
        self._failed_starts = 0
        self._idle.append(actor)

    def _settle(self, reference: Any) -> Done | None:
        """The result behind a finished reference; None where its worker died and the request goes back to the queue's head."""
        actor, job = self._running.pop(reference)
        try:
            outcome = ray.get(reference)
        except EnvironmentUnfit as error:
            self._unfit = str(error.cause if isinstance(error, RayTaskError) else error)
            self._retired.append(actor)
            self._queue.appendleft(job)
            return None
        except (RayTaskError, OutOfMemoryError) as error:
            self._dismiss(actor)
            return self._repeat(job, str(error).strip().splitlines()[-1])
        except RayError as error:
            grace_s = GRACE_S if has_several_nodes() else 0.0
            node = self._dismiss(actor)
            self._lost.append(_Lost(job, node, str(error).strip().splitlines()[-1], time.monotonic() + grace_s))
            return None
        if to_be_repeated(outcome, job.attempts + 1):
            self._dismiss(actor)
            self._queue.appendleft(replace(job, attempts=job.attempts + 1))
            return None
        self._idle.append(actor)
        return Done(number=job.number, outcome=outcome)

    def _dismiss(self, actor: Any) -> str:
        """End an actor, so that another is hired; the machine that it was on."""
        ray.kill(actor)
        self._missing += 1
        return self._nodes.pop(actor)

    def _repeat(self, job: _Job, reason: str) -> Done | None:
        """Put a request whose worker died back to the queue's head, or what it ends with after too many of them."""
        if job.attempts + 1 < ATTEMPTS:
            self._queue.appendleft(replace(job, attempts=job.attempts + 1))
            return None
        return Done(number=job.number, outcome=harness_fault(job.request, reason))

    def _reclaim(self) -> list[Done]:
        """Take back what was lost, without counting it where its machine is gone."""
        if not self._lost:
            return []
        dead, now, lost = dead_nodes(), time.monotonic(), self._lost
        self._lost = [one for one in lost if one.node not in dead and now < one.until]
        self._queue.extendleft(one.job for one in reversed(lost) if one.node in dead)
        over = [one for one in lost if one.node not in dead and now >= one.until]
        return [done for one in over if (done := self._repeat(one.job, one.reason)) is not None]


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
