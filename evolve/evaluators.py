"""How an evaluator comes about wherever it is wanted: task, scenario set, backend, settings."""

import os
from collections.abc import Callable
from dataclasses import dataclass

from evaluator.admissions import default_admissions
from evaluator.backend import Backend
from evaluator.cache import default_folder
from evaluator.cuda.device import Gpu, NoGpuError, find_gpus
from evaluator.cuda.lease import GpuQuarantinedError, Quarantine, lease_path
from evaluator.request import Evaluator
from evaluator.settings import HarnessSettings, cuda_settings, full_settings, quick_settings
from evaluator.simulated import SimulatedEvaluator
from evaluator.sittings import default_sittings
from evaluator.task import load_task
from evolve.errors import EnvironmentUnfit

ELSEWHERE = (
    "`--no-evaluate` asks and compiles here, `askevolve resume RUN --until-idle` evaluates on a machine with a GPU (docs/gpu.md)"
)


@dataclass(frozen=True, slots=True)
class EvaluatorSpec:
    """Builds an evaluator wherever it is called; pickles as a few words."""

    task: str
    scenarios: str
    backend: str
    seed: int
    settings: HarnessSettings
    threads: int
    baseline: str | None = None

    def __call__(self, progress: Callable[[str], None] = lambda text: None) -> Evaluator:
        """A fresh evaluator; on the cuda backend for the first GPU that this process sees. ``progress`` hears how far a final is.

        Raises ValueError, OSError, RuntimeError or ImportError where this machine lacks what it needs, EnvironmentUnfit where
        that GPU is quarantined.
        """
        task = load_task(self.task)
        if self.backend == "simulated":
            return SimulatedEvaluator(task.card(self.scenarios), self.seed)
        from evaluator.harness import Harness

        try:
            backend = self._backend()
        except GpuQuarantinedError as error:
            raise EnvironmentUnfit(str(error)) from None
        return Harness(
            task,
            self.scenarios,
            backend,
            self.settings,
            baseline=self.baseline,
            admissions=default_admissions(),
            sittings=default_sittings(),
            progress=progress,
        )

    def _backend(self) -> Backend:
        if self.backend == "cuda":
            from evaluator.cuda.backend import CudaBackend

            return CudaBackend(default_folder())
        from evaluator.cpu.backend import CpuBackend

        return CpuBackend(default_folder(), self.threads)


def gpus_here() -> tuple[tuple[Gpu, ...], str]:
    """The GPUs that this process may use; or none, and why."""
    try:
        gpus = find_gpus()
    except NoGpuError as error:
        return (), str(error)
    return gpus, "" if gpus else "the driver shows this process no GPU (CUDA_VISIBLE_DEVICES hides them where it is set)"


def quarantine_of(gpu: Gpu) -> str | None:
    """Why a GPU is quarantined and what to do about it, None for one that isn't."""
    try:
        Quarantine(lease_path(gpu.uuid)).refuse()
    except GpuQuarantinedError as error:
        return f"{gpu.name} ({gpu.uuid}): {error}"
    return None


def spare_cores() -> int:
    """Cores that an evaluation may have: all that this process may use but one, which the search itself needs."""
    return max(1, len(os.sched_getaffinity(0)) - 1)


def settings_of(backend: str, pace: str, looks: int | None = None) -> HarnessSettings:
    """The harness's settings for a backend at a pace ("full" or "quick"); ``looks`` None: as many as the pace takes."""
    if backend == "cuda":
        return cuda_settings(pace, looks)
    of_pace: Callable[..., HarnessSettings] = quick_settings if pace == "quick" else full_settings
    return of_pace() if looks is None else of_pace(looks)
