"""For benchmarks/noise.py: where it is measured, what a part reports, sessions, time limits, load."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from evaluator.backend import Backend
from evaluator.cache import default_folder
from evaluator.locks import lock_path
from evaluator.peers import open_baselines
from evaluator.pool import Pool
from evaluator.session import Session
from evaluator.settings import HarnessSettings, cuda_settings, quick_settings
from evaluator.task import load_task
from evolve.evaluators import spare_cores
from population.candidate import Language

CHEATS = Path(__file__).parent.parent / "tests" / "cheats"
Item = TypeVar("Item")


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where it is measured, and what stands for what there."""

    backend: Backend
    settings: HarnessSettings
    wide_set: str
    small_set: str
    seed: str
    bad: Path
    hang: str
    good: Path | None  # of the light task; None: the seed of attention

    @property
    def language(self) -> Language:
        return self.backend.language


@dataclass
class Report:
    """What a part found: ``lines`` to print, ``figures`` to keep, and for each claim whether it holds."""

    lines: list[str] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)
    claims: list[tuple[str, bool]] = field(default_factory=list)

    def claim(self, text: str, holds: bool) -> None:
        self.claims.append((text, holds))


def place(kind: str, scenario_set: str | None) -> Place:
    if kind == "cuda":
        from evaluator.cuda.backend import CudaBackend

        backend = CudaBackend(default_folder())
        settings = replace(cuda_settings("full"), race_cap_s=1.5, pool_members=1, search_distributions=2, repeats=2)
        return Place(
            backend=backend,
            settings=settings,
            wide_set=scenario_set or "fa3_36",
            small_set="quick3",
            seed="hopper" if backend.device.arch == "sm_90a" else "portable",
            bad=CHEATS / "cuda" / "bad",
            hang="hang",
            good=CHEATS / "cuda" / "honest" / "one_warp_a_row.cu",
        )
    from evaluator.cpu.backend import CpuBackend

    return Place(
        backend=CpuBackend(default_folder(), spare_cores()),
        settings=quick_settings(),
        wide_set=scenario_set or "cpu_quick",
        small_set="cpu_quick",
        seed="cpu_blocked",
        bad=CHEATS / "attention",
        hang="endless_loop",
        good=None,
    )


def open_session(where: Place, set_name: str) -> Session:
    """A session with fresh secrets, as a harness makes it."""
    task = load_task("attention_forward")
    card, backend = task.card(set_name), where.backend
    return Session(
        task=task,
        card=card,
        backend=backend,
        settings=where.settings,
        baselines=open_baselines(task, card, backend),
        pool=Pool(task, where.settings.pool_bytes, os.urandom(32), backend.array_module),
        clock=time.monotonic,
        entropy=os.urandom,
        pressure=backend.pressure,
        lock=lock_path(),
    )


def seed_source(where: Place) -> str:
    return load_task("attention_forward").seeds(where.language)[where.seed].read_text()


def within(limit_s: float, items: Sequence[Item]) -> Iterator[Item]:
    """The items as long as there is time."""
    end_s = time.monotonic() + limit_s
    for item in items:
        if time.monotonic() > end_s:
            return
        yield item


@contextmanager
def busy_cores(count: int) -> Iterator[None]:
    """One process a core that computes all the time."""
    spinners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for one in spinners:
            one.kill()
            one.wait()


@contextmanager
def no_load() -> Iterator[None]:
    yield
