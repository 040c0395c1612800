"""The CPU backend: C++ candidates built by g++, run in a sealed process beside a baseline."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from evaluator.backend import Build, Lease, Program, Side
from evaluator.cache import BuildCache
from evaluator.cpu.baseline import start_baseline, warm_pool
from evaluator.cpu.build import COMPILE_LIMITS, build_candidate, host_program
from evaluator.cpu.child import Child, Clock
from evaluator.cpu.device import choose_cores, describe_device
from evaluator.cpu.gate import gate
from evaluator.cpu.side import start_candidate
from evaluator.disturbance import Pressure, cpu_pressure_us
from evaluator.outcome import Fault
from evaluator.plan.resolved import Resolved
from evaluator.sandbox import Limits
from evaluator.task_card import Scenario
from population.candidate import Language

MOST_THREADS = 64


class CpuBackend:
    """Implements ``evaluator.backend.Backend``.

    ``cache_folder`` keeps compiled candidates and the host process; ``cores`` are those that both sides of a race use, one per
    thread (default: the first ``threads`` of those this process may use). ``clock_ns`` is the only clock.
    """

    def __init__(
        self,
        cache_folder: Path,
        threads: int = 2,
        *,
        cores: Sequence[int] | None = None,
        clock_ns: Clock = time.perf_counter_ns,
        compile_limits: Limits = COMPILE_LIMITS,
    ) -> None:
        if not 1 <= threads <= MOST_THREADS:
            raise ValueError(f"{threads} threads: the CPU backend runs 1 to {MOST_THREADS}")
        self.language = Language.CPP
        self.array_module: Any = np
        self.pressure: Pressure = cpu_pressure_us
        self.free_bytes: int | None = None
        self._cache = BuildCache(cache_folder.resolve())
        self._cores = tuple(choose_cores(threads) if cores is None else cores)
        self._clock_ns = clock_ns
        self._compile_limits = compile_limits
        self._host = host_program(self._cache)
        self.device = describe_device(len(self._cores), self._host)
        # A child dies with the thread that started it, so one thread that lives as long as the backend starts them all.
        self._spawner = ThreadPoolExecutor(max_workers=1, thread_name_prefix="cpu-spawner")
        self._baselines = warm_pool(self._cores, clock_ns, self._on_spawner)

    def facts(self) -> Mapping[str, int]:
        """See ``evaluator.backend.Backend``: ``sm_count`` is the number of threads, ``shared_limit`` 0."""
        return {"sm_count": len(self._cores), "shared_limit": 0}

    def build(self, source: str, resolved: Resolved) -> Build | Fault:
        """See ``evaluator.backend.Backend``. Verdicts: COMPILE_ERROR, COMPILE_LIMIT."""
        return build_candidate(source, resolved, self._cache, self._compile_limits)

    def gate(self, build: Build, resolved: Resolved) -> Fault | None:
        """See ``evaluator.backend.Backend``. Verdict: GATE_VIOLATION."""
        return gate(build, resolved)

    def lease(self, purpose: str) -> AbstractContextManager[Lease]:
        """See ``evaluator.backend.Backend``."""
        return nullcontext(Lease())

    def start(self, program: Program, slots: int) -> Side | Fault:
        """See ``evaluator.backend.Backend``. Gates again, since loading what doesn't pass would run its code unsealed."""
        refused = gate(program.build, program.resolved)
        if refused is not None:
            return refused
        if not self._host.exists():  # somebody emptied the cache
            self._host = host_program(self._cache)
        return start_candidate(
            program, slots, host=self._host, cores=self._cores, clock_ns=self._clock_ns, on_spawner=self._on_spawner
        )

    def start_baseline(
        self, task_folder: Path, baseline: str, resolved: Resolved, scenario: Scenario, slots: int
    ) -> Side | Fault:
        """See ``evaluator.backend.Backend``. Every fault is HARNESS_FAULT."""
        return start_baseline(self._baselines, task_folder, baseline, resolved, scenario, slots)

    def close(self) -> None:
        """See ``evaluator.backend.Backend``."""
        self._baselines.close()
        self._spawner.shutdown()

    def _on_spawner(self, make: Callable[[], Child]) -> Child:
        return self._spawner.submit(make).result()
