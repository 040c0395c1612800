"""The builds of a CUDA candidate as jobs: compiled on any CPU into the cache that the evaluator looks into."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evaluator.cache import BuildCache, default_folder
from evaluator.cuda.device import Gpu
from evaluator.cuda.nvrtc import compile_cuda
from evaluator.cuda.offline import DEVICE_FACTS
from evaluator.locks import compile_lock, lock_path
from evaluator.outcome import Device, Fault
from evaluator.plan.resolved import Resolved
from evaluator.request import Request
from evaluator.screen import screen
from evaluator.task import Task
from evaluator.task_card import TaskCard
from evolve.errors import EnvironmentUnfit
from evolve.executors.ahead import Ahead, Job

FIRST_ARCH = "sm_90a"
"""What is built for where no GPU is here to say."""

_LOCK_WAIT_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What is compiled for: an architecture such as ``sm_90a``, and the device facts that plans may use."""

    arch: str
    facts: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compile:
    """A job: one build, in the sandbox, into the cache in ``folder``."""

    source: str
    resolved: Resolved
    arch: str
    folder: Path

    def __call__(self) -> None:
        """Compile, unless it is in the cache. Raises LockTimeoutError where timing on the CPU keeps compilers away for long."""
        with compile_lock(lock_path(), _LOCK_WAIT_S, "compiling ahead"):
            compile_cuda(self.source, self.resolved, self.arch, BuildCache(self.folder))


@dataclass(frozen=True, slots=True, kw_only=True)
class Builds:
    """From a request to its distinct builds for a target, cached in ``folder``; none where it doesn't get past the screen."""

    task: Task
    card: TaskCard
    target: Target
    folder: Path

    def __call__(self, request: Request) -> Sequence[Job]:
        """One job for each set of defines, in the order of the scenarios."""
        candidate = request.candidate
        screened = screen(
            candidate.source,
            candidate.language,
            self.card,
            self.target.facts,
            lambda scenario: self.task.scalars(scenario.symbols),
        )
        if isinstance(screened, Fault):
            return ()
        distinct = {tuple(sorted(resolved.defines.items())): resolved for resolved in reversed(screened.resolved)}
        return tuple(
            Compile(source=candidate.source, resolved=resolved, arch=self.target.arch, folder=self.folder)
            for resolved in reversed(distinct.values())
        )


def target_of(gpus: Sequence[Gpu]) -> Target:
    """The first GPU, or a representative of ``FIRST_ARCH`` where there is none."""
    if not gpus:
        return Target(arch=FIRST_ARCH, facts=DEVICE_FACTS[FIRST_ARCH])
    return Target(arch=gpus[0].arch, facts=gpus[0].facts)


def ahead_of(task: Task, card: TaskCard, gpus: Sequence[Gpu], workers: int) -> Ahead:
    """Compiling ahead for the first of the GPUs on ``workers`` CPUs. Raises EnvironmentUnfit without a cache folder."""
    try:
        folder = default_folder()
    except OSError as error:
        raise EnvironmentUnfit(str(error)) from None
    return Ahead(jobs=Builds(task=task, card=card, target=target_of(gpus), folder=folder), workers=workers)


def facts_on(device: Device) -> Mapping[str, int]:
    """The facts that plans may use on a device as an outcome names it; of a GPU that isn't listed the most generous limit."""
    if device.kind == "cpu":
        return {"sm_count": device.cores, "shared_limit": 0}
    known = DEVICE_FACTS.get(device.arch)
    limits = [known["shared_limit"]] if known else [facts["shared_limit"] for facts in DEVICE_FACTS.values()]
    return {"sm_count": device.cores, "shared_limit": max(limits)}
